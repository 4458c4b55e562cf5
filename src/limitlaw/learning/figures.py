"""Pictures of posteriors."""

from typing import TYPE_CHECKING

import numpy as np

from limitlaw.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from limitlaw.learning.answer import Posterior
    from limitlaw.learning.problem import Problem


def posterior_figure(posterior: "Posterior", problem: "Problem", layer: int) -> "Figure":
    """Predictions with two standard deviations, targets, and mean attention weights."""
    from matplotlib.figure import Figure

    attends = problem.map.readings > 0
    figure = Figure(figsize=(9.5 if attends else 5.5, 3.4), layout="constrained")
    panels = figure.subplots(1, 2 if attends else 1, squeeze=False)[0]
    _predictions(panels[0], posterior, problem)
    if attends:
        A = np.asarray(posterior.attention(layer).mean())
        picture = panels[1].imshow(A.reshape(-1, A.shape[-1]), aspect="auto", vmin=0, vmax=1)
        figure.colorbar(picture, ax=panels[1], label="mean attention weight")
        panels[1].set(xlabel="key", ylabel="input, head and query", title=f"layer {layer}")
    return figure


def _predictions(panel: "Axes", posterior: "Posterior", problem: "Problem") -> None:
    count = int(np.prod(problem.shape))
    place, output = np.arange(count), 0
    mean, sd = np.empty(count), np.empty(count)
    for i in place:
        law = posterior.predict(tuple(int(k) for k in np.unravel_index(i, problem.shape)))
        one = law if problem.single else law.marginal(output)
        mean[i], sd[i] = one.mean(), np.sqrt(one.variance())
    panel.errorbar(place, mean, yerr=2 * sd, fmt="o", ms=3, color=COLOURS[0], label="prediction")
    t = problem.targets[:, output]
    panel.plot(problem.train, t, "x", color=COLOURS[1], label="target")
    panel.set(xlabel="entry of y", ylabel="f")
    panel.legend(frameon=False)
