"""Laws in .npz files, written by `law.save` and read by `load`: a header of plain values in JSON,
and arrays. No pickle.
"""

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from limitlaw.files import replacing
from limitlaw.float64 import in_float64
from limitlaw.laws.base import Content, Law
from limitlaw.phi import Nonlinearity, rebuild

FORMAT = 1
HEADER = "limitlaw"
OTHER = "other."  # before the names of arrays of the law that errors come from


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write one law to a file, all of it or nothing."""
    text = json.dumps({"format": FORMAT, **header})
    with replacing(path) as file:  # a file, not a name, to which NumPy would add ".npz"
        np.savez(file, **{HEADER: np.array(text)}, **arrays)  # type: ignore[arg-type]


def read(path: str | os.PathLike[str]) -> Content:
    """The header and the arrays that `write` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(str(arrays.pop(HEADER)[()]))
    except (
        ValueError,
        KeyError,
        EOFError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(f"{os.fspath(path)} is not a law that limitlaw saved ({error})") from None
    if header.get("format") != FORMAT:
        raise ValueError(
            f"{os.fspath(path)} has format {header.get('format')!r}, this limitlaw reads {FORMAT}"
        )
    return header, arrays


def image(phi: Nonlinearity, base: Content) -> Content:
    """The content of a file for φ(Y): the name of φ beside the content for Y."""
    if phi.saved is None:
        raise ValueError(
            f"{phi.name} is a function of your own and cannot be saved without pickle: save "
            "law.base, the law of its argument, and apply the function after loading"
        )
    header, arrays = base
    return {"phi": phi.saved, "base": header}, arrays


def joined(parts: Mapping[str, Law]) -> Content:
    """The content of a file for several laws by name: headers, and arrays under name/."""
    contents = {name: law._stored() for name, law in parts.items()}
    arrays = {
        f"{name}/{key}": array for name, (_, own) in contents.items() for key, array in own.items()
    }
    return {"parts": {name: header for name, (header, _) in contents.items()}}, arrays


def part(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of one of several laws."""
    return {
        key.removeprefix(f"{name}/"): array
        for key, array in arrays.items()
        if key.startswith(f"{name}/")
    }


@in_float64
def load(path: str | os.PathLike[str]) -> Law:
    """The law that `law.save(path)` wrote, bit for bit."""
    header, arrays = read(path)
    try:
        return rebuilt(header, arrays)
    except CannotRebuildError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error.__cause__
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ValueError(f"{os.fspath(path)} is not a law that limitlaw saved ({error})") from None


class CannotRebuildError(ValueError):
    """A file is whole, but its law is unknown here or does not take what was saved."""


def rebuilt(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Law:
    """The law that a header and its arrays describe; a pushforward holds its base's header."""
    name = header["law"]
    if name not in Law.known:
        raise CannotRebuildError(
            f"limitlaw knows no law {name}: import the module that defines it, and load again"
        )
    law: Any = Law.known[name]
    provenance = {"kind": header["kind"], "beyond": tuple(header["beyond"])}
    if "base" in header:
        return law(rebuild(*header["phi"]), rebuilt(header["base"], arrays), **provenance)
    if "parts" in header:
        parts = {name: rebuilt(each, part(name, arrays)) for name, each in header["parts"].items()}
        return law.rebuilt(header, parts, provenance["beyond"])
    own = {name: array for name, array in arrays.items() if not name.startswith(OTHER)}
    try:
        found = law(**own, **provenance)
    except TypeError as error:
        raise CannotRebuildError(
            f"{name}(…) must take what its _content saves, {', '.join([*own, *provenance])}, as "
            f"keywords: {error}"
        ) from error
    found._poles, found.effort = tuple(header.get("poles", ())), str(header.get("effort", ""))
    if "other" not in header:
        return found
    rest = {
        name.removeprefix(OTHER): array for name, array in arrays.items() if name.startswith(OTHER)
    }
    return found.compared_with(lambda: rebuilt(header["other"], rest))
