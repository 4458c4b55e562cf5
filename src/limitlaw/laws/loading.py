"""Laws from files: `load` is the other side of `law.save`."""

import os
from typing import Any

import numpy as np

from limitlaw.laws import branches, storage
from limitlaw.laws.base import Law
from limitlaw.laws.combination import Combination
from limitlaw.laws.empirical import Empirical
from limitlaw.laws.gaussian import Gaussian
from limitlaw.laws.head_sum import HeadSum
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.laws.pushforward import Pushforward
from limitlaw.laws.random_kernel import RandomKernel

KINDS = (Combination, Empirical, Gaussian, GaussianMixture, HeadSum, Pushforward, RandomKernel)
LAWS: dict[str, Any] = {law.__name__: law for law in KINDS}


def load(path: str | os.PathLike[str]) -> Law:
    """The law that `law.save(path)` wrote, bit for bit."""
    header, arrays = storage.read(path)
    try:
        law = rebuilt(header, arrays)
        law.effort = str(header.get("effort", ""))
        return law
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ValueError(f"{os.fspath(path)} is not a law that limitlaw saved ({error})") from None


def rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The law that a header and its arrays describe; a pushforward holds its base's header."""
    law = LAWS[header["law"]]
    provenance = {"kind": header["kind"], "beyond": tuple(header["beyond"])}
    if "base" in header:
        return law(branches.rebuild(*header["phi"]), rebuilt(header["base"], arrays), **provenance)
    return law(**arrays, **provenance)
