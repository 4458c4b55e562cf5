"""All experiments, by name."""

from limitlaw.paper import fig1, fig2, fig3, fig4, fig5, head_dim, heads, joint, theorem
from limitlaw.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (fig1, fig2, fig3, fig4, fig5, heads, head_dim, joint, theorem)
}


def chosen(names: list[str]) -> list[Experiment]:
    """The experiments of these names, in the order of the paper; all without a name. "fig1b" is a part of "fig1"."""
    wanted = [name if name in EXPERIMENTS or name[-1:] not in ("a", "b") else name[:-1] for name in names]
    for name, experiment in zip(names, wanted, strict=True):
        if experiment not in EXPERIMENTS:
            raise ValueError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    return [experiment for name, experiment in EXPERIMENTS.items() if not names or name in wanted]
