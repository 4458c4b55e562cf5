"""Laws from files: `load` is the other side of `law.save`."""

import os
from typing import Any

import numpy as np

from limitlaw.laws import storage
from limitlaw.laws.base import Law
from limitlaw.phi import rebuild

OTHER = "other."  # before the names of arrays of the law that errors come from


def load(path: str | os.PathLike[str]) -> Law:
    """The law that `law.save(path)` wrote, bit for bit."""
    header, arrays = storage.read(path)
    try:
        return rebuilt(header, arrays)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ValueError(f"{os.fspath(path)} is not a law that limitlaw saved ({error})") from None


def rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The law that a header and its arrays describe; a pushforward holds its base's header."""
    law: Any = Law.known[header["law"]]
    provenance = {"kind": header["kind"], "beyond": tuple(header["beyond"])}
    if "base" in header:
        return law(rebuild(*header["phi"]), rebuilt(header["base"], arrays), **provenance)
    if "parts" in header:
        parts = {
            name: rebuilt(each, storage.part(name, arrays))
            for name, each in header["parts"].items()
        }
        return law.rebuilt(header, parts, provenance["beyond"])
    own = {name: array for name, array in arrays.items() if not name.startswith(OTHER)}
    found = law(**own, **provenance)
    found._poles, found.effort = tuple(header.get("poles", ())), str(header.get("effort", ""))
    if "other" not in header:
        return found
    rest = {
        name.removeprefix(OTHER): array for name, array in arrays.items() if name.startswith(OTHER)
    }
    return found.compared_with(lambda: rebuilt(header["other"], rest))
