"""Every figure: which tables it shows and how it is built from them."""

from collections.abc import Callable
from dataclasses import dataclass

from limitlaw.figures import beyond, convergence, densities
from limitlaw.figures.picture import Picture
from limitlaw.figures.tables import Table


@dataclass(frozen=True)
class Entry:
    """One figure; `build` takes its tables in order, None for one that is not there."""

    build: Callable[..., Picture]
    tables: tuple[str, ...]
    optional: tuple[str, ...] = ()
    any_of: bool = False  # one of the tables is enough

    def picture(self, tables: dict[str, Table]) -> Picture | None:
        """The figure, or None if its tables are not there."""
        enough = any if self.any_of else all
        if not enough(name in tables for name in self.tables):
            return None
        return self.build(*(tables.get(name) for name in (*self.tables, *self.optional)))


def _figure4(density: Table | None, kl: Table | None, floor: Table | None) -> Picture:
    """Density and divergence side by side."""
    panels = [] if density is None else [densities.width_panel(density)]
    panels += [] if kl is None else [convergence.divergence_panel(kl, floor)]
    return Picture((tuple(panels),), (7.2 if len(panels) == 2 else 4.6, 3.6), 5)


_FLOOR = ("kde_floor",)
FIGURES: dict[str, Entry] = {
    "fig1a": Entry(densities.widths, ("fig1_density",)),
    "fig1b": Entry(convergence.divergences, ("fig1_kl",), _FLOOR),
    "fig2a": Entry(densities.scores, ("fig2a",)),
    "fig2b": Entry(densities.heads, ("fig2b",)),
    "fig3a": Entry(densities.widths, ("fig3_density",)),
    "fig3b": Entry(convergence.divergences, ("fig3_kl",), _FLOOR),
    "fig4": Entry(_figure4, ("fig4_density", "fig4_kl"), _FLOOR, any_of=True),
    "fig5a": Entry(densities.widths, ("fig5_density",)),
    "fig5b": Entry(convergence.divergences, ("fig5_kl",), _FLOOR),
    "heads": Entry(beyond.heads, ("heads",)),
    "head_dim": Entry(beyond.head_dims, ("head_dim", "head_dim_density"), any_of=True),
    "joint": Entry(beyond.joint, ("joint",)),
    "theorem": Entry(beyond.theorem, ("theorem",), ("theorem_constant",)),
}


def pictures(tables: dict[str, Table]) -> dict[str, Picture]:
    """The figures whose tables are there."""
    found = {name: entry.picture(tables) for name, entry in FIGURES.items()}
    return {name: picture for name, picture in found.items() if picture is not None}
