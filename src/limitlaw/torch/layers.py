"""The layers of a module: children, and the members of lists of blocks."""

from collections.abc import Sequence

from limitlaw.language import ops
from limitlaw.language.graph import ancestors
from limitlaw.language.values import Wide
from limitlaw.torch.converted import Labelled


def chosen_layers(values: Sequence[Labelled], layers: Sequence[str] | None) -> dict[str, Labelled]:
    """The last vectors of each layer, those of heads apart."""
    found = layers_of(values, layers)
    missing = [path for path in layers or () if path not in found]
    if missing or not found:
        known = ", ".join(dict.fromkeys(v.label.module for v in _wide(values))) or "none"
        raise ValueError(
            f"layers must be paths of submodules that give vectors ({known}), got "
            f"{missing or layers}"
        )
    return found


def _wide(values: Sequence[Labelled]) -> list[Labelled]:
    """The vectors of the stream: not those of heads."""
    everything = ancestors([v.value for v in values])
    given = {v.op.X.shape[-1] for v in everything if isinstance(v.op, ops.Data)}
    vectors = [v for v in values if isinstance(v.value, Wide) and v.label.name != "output"]
    # streams that start with data
    return [v for v in vectors if not v.layout.narrow or v.layout.dimension in given]


def layers_of(
    values: Sequence[Labelled], layers: Sequence[str] | None = None
) -> dict[str, Labelled]:
    """`chosen_layers`, as far as there are any."""
    found: dict[str, Labelled] = {}
    for item in _wide(values):
        for path in layer_of(item.label.module) if layers is None else layers:
            if within(item.label.module, path):
                found[path] = item
    return found


def layer_of(module: str) -> list[str]:
    """The layer that a submodule is in: the member of a list of blocks,
    else the child of the module.
    """
    parts = module.split(".")
    block = next((i for i, part in enumerate(parts) if part.isdigit()), 0)
    return [".".join(parts[: block + 1])] if module else []


def within(module: str, path: str) -> bool:
    """Is the module at this path, or inside of it?"""
    return module == path or module.startswith(f"{path}.")
