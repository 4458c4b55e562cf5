"""The output of an attention layer is not Gaussian:
simulated random networks beside their exact law.

Prints a table and draws out/attention_tails.png, in less than a minute on two cores.
"""

import math
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import limitlaw as ll

TOKENS, WIDTH, HEADS = 4, 32, (1, 2, 16)
Array = np.ndarray[Any, np.dtype[np.float64]]
Estimate = tuple[float, float]  # a value and its standard error


def layer(heads: int) -> ll.Wide:
    """The network: four tokens made from one random vector, then attention;
    token 0 of its output.
    """
    h = ll.initial()
    x = ll.clip(ll.matrices(TOKENS) @ h, 100.0)
    return ll.attention(x, heads=heads)[0]


def sample_moments(y: Array) -> tuple[Estimate, Estimate]:
    """Variance and excess kurtosis of simulated outputs, with standard errors (delta method)."""
    u, root = y**2, math.sqrt(len(y))
    mean, ratio = u.mean(), np.mean(u**2) / u.mean() ** 2
    # of one draw on the ratio, but for a constant
    influence = (u / mean) ** 2 - 2 * ratio * u / mean
    return (mean, u.std() / root), (ratio - 3, influence.std() / root)


def law_moments(law: ll.Law) -> tuple[Estimate, Estimate]:
    """Variance and excess kurtosis of a law, with standard errors."""
    variance = float(law.variance()), float(law.error.variance())
    return variance, (float(law.kurtosis()), float(law.error.kurtosis()))


def panel(axes: Any, y: Array, law: ll.Law, limit: ll.Law, unit: float) -> None:
    """The density of |y| in units of the limit's standard deviation:
    simulated points, and exact curves.
    """
    t = np.linspace(0, 5, 101)
    axes.plot(t, 2 * unit * law.pdf(t * unit), "-", color="#0072B2", label=f"exact, $n={WIDTH}$")
    axes.plot(
        t, 2 * unit * limit.pdf(t * unit), "--", color="#D55E00", label=r"exact, $n\to\infty$"
    )
    axes.plot(t, math.sqrt(2 / math.pi) * np.exp(-(t**2) / 2), ":", color="0.4", label="Gaussian")
    counts, edges = np.histogram(np.abs(y) / unit, bins=20, range=(0, 5))
    centres, total = (edges[1:] + edges[:-1]) / 2, len(y) * (edges[1] - edges[0])
    # bins where five or more are expected
    shown = np.asarray(2 * unit * law.pdf(centres * unit) * total > 5)
    centres, heights, errors = (
        a[shown] for a in (centres, counts / total, np.sqrt(counts) / total)
    )
    axes.errorbar(
        centres, heights, errors, fmt="k.", lw=1, zorder=3, label=f"simulated, $n={WIDTH}$"
    )
    axes.set(yscale="log", xlim=(0, 5), ylim=(1e-5, 1.5))


def main(
    samples: int = 30_000, conditions: int = 100_000, out: Path = Path("out")
) -> dict[int, list[tuple[Estimate, Estimate]]]:
    """Simulate, print the table, draw the picture;
    returns the table: [simulated, exact, limit] for each H.
    """
    table = Table(
        "heads", "quantity", f"simulated, n = {WIDTH}", f"exact, n = {WIDTH}", "exact, n → ∞"
    )
    figure, panels = plt.subplots(
        1, len(HEADS), figsize=(9, 3.6), sharey=True, layout="constrained"
    )
    results = {}
    for heads, axes in zip(HEADS, panels, strict=True):
        y = np.asarray(
            ll.simulate(layer(heads), width=WIDTH, samples=samples, key=jax.random.key(heads))
        )
        law = ll.finite(layer(heads), width=WIDTH, samples=conditions, key=jax.random.key(0))
        limit = ll.limit(layer(heads))
        results[heads] = [sample_moments(y), law_moments(law), law_moments(limit)]
        for quantity, row in zip(
            ("variance", "excess kurtosis"), zip(*results[heads], strict=True), strict=True
        ):
            cells = [
                f"{value:.4f}" + (f" ± {error:.4f}" if error > 5e-5 else "")
                for value, error in row
            ]
            table.add_row(str(heads), quantity, *cells, end_section=quantity != "variance")
        panel(axes, y, law, limit, math.sqrt(results[heads][2][0][0]))
        axes.set_title(f"{heads} head{'s' if heads > 1 else ''}")
    panels[0].set_ylabel("density")
    panels[1].set_xlabel("|output of token 0, coordinate 0|, in standard deviations of the limit")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False
    )
    Console().print(table)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "attention_tails.png", dpi=130)
    plt.close(figure)
    return results


if __name__ == "__main__":
    main()
