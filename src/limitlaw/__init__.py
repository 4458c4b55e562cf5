"""limitlaw: the exact law of a network's activations at initialisation, at width n or as n → ∞."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limitlaw.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Public names and subpackages, imported when asked for: `limitlaw --help` needs no JAX."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    public = importlib.import_module(f"{__name__}.public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(
        {each: getattr(public, each) for each in public.__all__}, __all__=public.__all__
    )
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
