"""The words beside the figures of the report, with the markup of labels (`<i>`, `<sub>`, `<sup>`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Caption:
    """`name` is the paper's own, "" for a figure beyond the paper; `text` says what is seen and how it was computed."""

    name: str
    title: str
    text: str


_DENSITIES = (
    "Lines are exact: averages of Gaussian densities over the conditions drawn at that width, nothing smoothed; the "
    "wide grey line is the limit, by quadrature. Markers are the paper's estimator, a Gaussian kernel density "
    "estimate (KDE) of one trial."
)
_ESTIMATES = (
    "Squares: the paper's estimator, from two KDEs on a common grid, mean ± standard deviation over the trials. "
    "Circles: the same divergence between the exact laws, ± its standard error."
)

CAPTIONS = {
    "fig1a": Caption(
        "Figure 1(a)",
        "the law of one output as the width grows",
        "Density of one coordinate of one token, in linear and in log scale. The wider the layer, the closer to a "
        f"limit whose tails are heavier than a Gaussian's. {_DENSITIES}",
    ),
    "fig1b": Caption(
        "Figure 1(b)",
        "how fast the limit is reached",
        f"Divergence of the law at width <i>n</i> from its limit. {_ESTIMATES} Dotted: what that estimator gives "
        "between two samples of one law. There the paper's curve ends; the exact one goes on as <i>n</i><sup>−2</sup>.",
    ),
    "fig2a": Caption(
        "Figure 2(a)",
        "an attention score under two scalings",
        "Under 1/√<i>n</i> a score stays random in the limit; under 1/<i>n</i> it shrinks to 0, drawn as an arrow. "
        "Lines are exact (width <i>n</i> = 256), the wide grey one is the limit, markers are the paper's KDE of "
        "the drawn scores.",
    ),
    "fig2b": Caption(
        "Figure 2(b)",
        "few heads and many",
        "With one head the law is not Gaussian, as its tails show best; with 256 heads it lies on the Gaussian of "
        "infinitely many. Wide pale lines are limits, by quadrature; thin lines are exact at width 256; markers "
        "are the paper's KDE.",
    ),
    "fig3a": Caption(
        "Figure 3(a)",
        "low-rank heads",
        "Heads of fixed dimension <i>d</i>, their number growing with the width, in linear and in log scale. Blue "
        "lines are exact; the wide grey line is the limit for <i>n</i> × <i>n</i> heads, the dashed black one the "
        "limit at this <i>d</i>. Markers are the paper's KDE of one trial.",
    ),
    "fig3b": Caption(
        "Figure 3(b)",
        "how fast, with low-rank heads",
        f"Divergence from two limits. {_ESTIMATES} Seen from the limit for <i>n</i> × <i>n</i> heads the exact curve "
        f"flattens, since <i>d</i> stays fixed; from the limit at that <i>d</i> (triangles) it does not.",
    ),
    "fig4": Caption(
        "Figure 4",
        "more tokens",
        "As figure 1 with a longer sequence: the density of one output, and its divergence from the limit. "
        f"{_DENSITIES} {_ESTIMATES}",
    ),
    "fig5a": Caption(
        "Figure 5(a)",
        "ReLU inputs, the law of one output",
        f"As figure 1(a), with tokens that have passed a ReLU and so are correlated. {_DENSITIES}",
    ),
    "fig5b": Caption("Figure 5(b)", "ReLU inputs, how fast the limit is reached", f"As figure 1(b). {_ESTIMATES}"),
    "heads": Caption(
        "",
        "Towards infinitely many heads",
        "Excess kurtosis falls as 1/<i>H</i>, the divergence from the Gaussian of infinitely many heads as "
        "1/<i>H</i><sup>2</sup>. Computed without sampling: heads are added by their characteristic function.",
    ),
    "head_dim": Caption(
        "",
        "Heads of fixed dimension",
        "As in practice, the head dimension <i>d</i> stays fixed while <i>n</i> → ∞. Narrow heads have heavier tails "
        "and a smaller variance, and approach the <i>n</i> × <i>n</i> limit of the paper as <i>d</i> grows. The laws "
        "are exact Gaussian mixtures; error bars are those of sampling their components.",
    ),
    "joint": Caption(
        "",
        "Two tokens together",
        "Joint density of one coordinate of two tokens with one head, and of the Gaussian with the same covariance, "
        "at the same levels in log scale. An average of Gaussian densities over the scores; nothing is smoothed.",
    ),
    "theorem": Caption(
        "",
        "Theorem 3.1 itself",
        "Distribution over networks of the average (1/<i>n</i>) Σ<sub>α</sub> cos <i>y</i><sub>α</sub>, for growing "
        "width. It approaches a random variable (wide grey line), not the constant that a Gaussian theory predicts "
        "(dotted).",
    ),
}
