"""Figures 1, 3, 4 and 5: the law of y¹ for growing width, its limit, and their divergence."""

from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from limitlaw.apps.paper.computed import tasks
from limitlaw.apps.paper.computed.baseline import Case
from limitlaw.apps.paper.computed.estimators import Estimated, kl_of_blocks
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.numerics.replicates import INDEPENDENT
from limitlaw.runs import Chunk, Results, Table, rows


class Point(NamedTuple):
    """A width and the number of heads at that width."""

    width: int
    heads: int


class Convergence(NamedTuple):
    """A row of the paper's table of experiments.

    `paper` are its widths, `beyond` those to which only the exact divergence goes
    (a first look takes the first of them). `samples` multiplies those of the settings; `tokens`
    and `trials`, if None, are those of the settings.
    """

    name: str
    paper: tuple[Point, ...]
    beyond: tuple[Point, ...] = ()
    phi: str = "clip"
    head_dim: int | None = None
    tokens: int | None = 4
    samples: int = 1
    trials: int | None = None

    def chunks(self, settings: Settings) -> list[Chunk]:
        """Limits first, then a trial of each width (they compile together), then the others."""
        points = self._points(settings)
        limits = [
            self.limit(settings, point, d) for point in points for d in (self.head_dim, None)
        ]
        trials = _in_turn([self._trials(settings, point) for point in self.paper])
        return [
            *limits,
            *trials,
            *_in_turn([self._differences(settings, point) for point in points]),
        ]

    def _points(self, settings: Settings) -> tuple[Point, ...]:
        return self.paper + (self.beyond[:1] if settings.quick else self.beyond)

    def _tokens(self, settings: Settings) -> int:
        return settings.tokens if self.tokens is None else self.tokens

    def _count(self, settings: Settings) -> int:
        return settings.trials if self.trials is None else self.trials

    def limit(self, settings: Settings, point: Point, head_dim: int | None) -> Chunk:
        """The chunk of the limit with this head dimension."""
        return Chunk.of(
            tasks.limit,
            tokens=self._tokens(settings),
            heads=point.heads,
            head_dim=head_dim,
            nodes_of=self.head_dim,
            phi=self.phi,
        )

    def _trials(self, settings: Settings, point: Point) -> list[Chunk]:
        network = {
            "tokens": self._tokens(settings),
            "heads": point.heads,
            "head_dim": self.head_dim,
            "phi": self.phi,
        }
        counts = {"samples": self.samples * settings.samples, "seed": settings.seed}
        return [
            Chunk.of(tasks.trial, **network, width=point.width, trial=i, **counts)
            for i in range(self._count(settings))
        ]

    def _differences(self, settings: Settings, point: Point) -> list[Chunk]:
        """Chunks of coupled draws; none with a nonlinearity or over n tokens: trials serve."""
        if self.phi != "clip" or self._tokens(settings) > point.width:
            return []
        draws = max(2**8, settings.draws // max(1, point.heads // 2))
        network = {
            "tokens": self._tokens(settings),
            "heads": point.heads,
            "head_dim": self.head_dim,
        }
        counts = {"width": point.width, "draws": draws, "seed": settings.seed}
        return [
            Chunk.of(tasks.difference, **network, **counts, block=b)
            for b in range(settings.blocks)
        ]

    def dense(self, settings: Settings) -> list[Case]:
        """The networks that the paper draws, and how often each."""
        samples = self.samples * settings.samples * self._count(settings)
        tokens = self._tokens(settings)
        return [Case(tokens, heads, self.head_dim, width, samples) for width, heads in self.paper]

    def tables(self, settings: Settings, results: Results) -> dict[str, Table]:
        """Densities at the paper's widths, and divergences at all widths."""
        densities = [
            row for point in self.paper for row in self._densities(settings, results, point)
        ]
        paper = [self._paper_kl(settings, results, point) for point in self.paper]
        exact = [
            row
            for point in self._points(settings)
            for row in self.exact_kls(settings, results, point)
        ]
        tables = {
            f"{self.name}_density": rows(*densities),
            f"{self.name}_kl": rows(*paper, *exact),
        }
        coupled = [point for point in self._points(settings) if self._differences(settings, point)]
        if coupled:
            tables[f"{self.name}_coupled"] = rows(
                *(self._coupled(settings, results, point) for point in coupled)
            )
        return tables

    def _coupled(self, settings: Settings, results: Results, point: Point) -> dict[str, object]:
        """The variance of the limit by the draws that are coupled to it, and by its law."""
        found = np.concatenate(
            [results[chunk]["variance"] for chunk in self._differences(settings, point)]
        )
        error = float(INDEPENDENT.error(found))
        law = float(results[self.limit(settings, point, self.head_dim)]["variance"])
        variance = {"variance": float(found.mean()), "error": error, "limit": law}
        return {"heads": point.heads, "width": point.width, **variance}

    def _densities(
        self, settings: Settings, results: Results, point: Point
    ) -> list[dict[str, object]]:
        trials = [results[chunk] for chunk in self._trials(settings, point)]
        law = results[self.limit(settings, point, None)]
        at = {"heads": point.heads, "y": law["y"]}
        found = [
            {**at, "width": float(point.width), "curve": "kde", "density": trials[0]["kde"]},
            {
                **at,
                "width": float(point.width),
                "curve": "exact",
                "density": np.mean([t["exact"] for t in trials], 0),
            },
            {**at, "width": np.inf, "curve": "limit", "density": law["density"]},
        ]
        if self.head_dim is not None:
            fixed = results[self.limit(settings, point, self.head_dim)]
            found.append(
                {**at, "width": np.inf, "curve": "limit_fixed_d", "density": fixed["density"]}
            )
        return found

    def _paper_kl(self, settings: Settings, results: Results, point: Point) -> dict[str, object]:
        values = [float(results[chunk]["kl"]) for chunk in self._trials(settings, point)]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else np.nan
        return kl_row(
            point,
            "kde",
            "limit",
            Estimated(float(np.mean(values)), spread),
            self.samples * settings.samples,
        )

    def exact_kls(
        self, settings: Settings, results: Results, point: Point
    ) -> list[dict[str, object]]:
        """Divergences from the n × n limit, and from the limit at fixed head dimension."""
        deltas, draws, near = self.differences(settings, results, point)
        found = [
            kl_row(
                point, "exact", "limit", kl_of_blocks(deltas, near["q"], near["weights"]), draws
            )
        ]
        if self.head_dim is None:
            return found
        reference = results[self.limit(settings, point, None)]
        found[0]["reference"] = "fixed_d"
        whole = deltas + near["q"] - reference["q"]
        kl = kl_of_blocks(whole, reference["q"], near["weights"])
        return [*found, kl_row(point, "exact", "limit", kl, draws)]

    def differences(
        self, settings: Settings, results: Results, point: Point
    ) -> tuple[Float[np.ndarray, "blocks nodes"], int, dict[str, np.ndarray]]:
        """Blocks of p_n − p_∞, the number of draws, and the limit with its nodes and p_∞ there."""
        near = results[self.limit(settings, point, self.head_dim)]
        chunks = self._differences(settings, point)
        if chunks:
            draws = sum(dict(chunk.arguments)["draws"] for chunk in chunks)
            return np.concatenate([results[chunk]["delta"] for chunk in chunks]), draws, near
        blocks = np.concatenate(
            [results[chunk]["blocks"] for chunk in self._trials(settings, point)]
        )
        return blocks - near["q"], self.samples * settings.samples * self._count(settings), near


def _in_turn(lists: list[list[Chunk]]) -> list[Chunk]:
    """The first of each list, then the second of each, …."""
    return [chunk for group in zip_longest(*lists) for chunk in group if chunk is not None]


def kl_row(
    point: Point, estimator: str, reference: str, kl: Estimated, samples: int
) -> dict[str, object]:
    """A row of a table of divergences; `samples` are those of one estimate."""
    return {
        "heads": point.heads,
        "width": point.width,
        "estimator": estimator,
        "reference": reference,
        "kl": kl.value,
        "error": kl.error,
        "samples": samples,
    }
