"""The subject of an audit: vectors of layers and scores of attentions, in the program and in a
run.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.language.values import Scalars, Wide
from limitlaw.numerics.replicates import INDEPENDENT, Replicates
from limitlaw.torch import measuring as measure
from limitlaw.torch.converted import Attention, LabelledValue
from limitlaw.torch.converting import Conversion
from limitlaw.torch.exporting import Tensors
from limitlaw.torch.layers import chosen_layers, within
from limitlaw.torch.measuring import ENTROPY, KURTOSIS, SCORE_VARIANCE, ByStatistic

Key = tuple[str, str]  # (what is asked, the name of the layer)
OF_LIMIT = 256  # draws where something stays random as n → ∞
WithError = tuple[float, float]  # a value and its standard error


@dataclasses.dataclass(frozen=True)
class Subject:
    """Layers and attentions of a module by name; `kurtosis`: the kurtosis of coordinates is asked
    for, too.
    """

    done: Conversion
    layers: Mapping[str, LabelledValue]
    attentions: Mapping[str, Attention]
    kurtosis: bool = False

    @property
    def width(self) -> int:
        """The number of coordinates that most layers have."""
        sizes = Counter(item.layout.dimension for item in self.layers.values())
        return max(sizes, key=lambda size: (sizes[size], -size))

    @property
    def asked(self) -> dict[Key, Scalars]:
        """The values of the program from which all statistics are computed."""
        values = {name: flat(item.vectors) for name, item in self.layers.items()}
        asked = {("gram", name): ll.dot(x, x, "linear") for name, x in values.items()}
        if self.kurtosis:
            fourth = {
                n: ll.average(ll.map(lambda v: v**4, x, kinks=())) for n, x in values.items()
            }
            asked |= {("fourth", name): power for name, power in fourth.items()}
        return asked | {
            ("scores", name): measure.attention_statistics(a)
            for name, a in self.attentions.items()
        }

    def predicted(self, samples: int) -> dict[str, ByStatistic]:
        """The statistics of `samples` draws at the module's own width."""
        width = self.done.program.width
        if self.stages is not None:
            return measure.at_width(self.stages, self.attentions, width, samples)
        asked = self.asked
        draws = ll.finite_samples(asked, width=width, samples=samples, key=jax.random.key(0))
        return statistics({key: np.asarray(draws[key]) for key in asked})

    @functools.cached_property
    def stages(self) -> list[measure.Stage] | None:
        """Layers with repeated ones as loops; None without loops, or if kurtosis is asked for."""
        return (
            None
            if self.kurtosis
            else measure.stages(self.done.program.values, self.layers, self.attentions)
        )

    def measured(self, run: Tensors) -> dict[Key, np.ndarray]:
        """The values in `asked`, from one run of the module's graph."""
        found: dict[Key, np.ndarray] = {}
        for name, item in self.layers.items():
            x = measure.vectors_of(run, item)
            found["gram", name] = x @ x.T / x.shape[-1]
            if self.kurtosis:
                found["fourth", name] = (x**4).mean(axis=-1)
        for name, a in self.attentions.items():
            found["scores", name] = measure.measured_attention(
                self.done.exported, a.label.name, run
            )
        return found

    def in_the_limit(self) -> dict[str, dict[str, WithError]]:
        """The statistics of every layer as n → ∞; none where there is no limit."""
        if self.stages is not None:
            return _limits(self.stages, self.attentions)
        return {name: _limit(flat(item.vectors)) for name, item in self.layers.items()}


def subject_of(done: Conversion, layers: Sequence[str] | None, kurtosis: bool) -> Subject:
    """The layers that were asked for, or all, and the attentions in them."""
    return Subject(
        done, chosen_layers(done.program.values, layers), _attentions(done, layers), kurtosis
    )


def _attentions(done: Conversion, layers: Sequence[str] | None) -> dict[str, Attention]:
    """Every attention by the path of its module, and by its node if a module has several."""
    found = [  # attentions in which some token sees more than one
        a
        for a in done.program.attentions
        if (a.scores.shape[-1] if a.visible is None else a.visible.sum(axis=-1).max()) > 1
    ]
    if layers is not None:
        found = [a for a in found if any(within(a.label.module, path) for path in layers)]
    count = Counter(a.label.module for a in found)
    return {
        (a.label.module or "module") + (f":{a.label.name}" if count[a.label.module] > 1 else ""): a
        for a in found
    }


def statistics(draws: Mapping[Key, np.ndarray]) -> dict[str, ByStatistic]:
    """The statistics of each layer, by its name, draw by draw."""
    found: dict[str, ByStatistic] = {}
    for (kind, name), array in draws.items():
        if kind == "gram":
            found.setdefault(name, {}).update(measure.of_grams(array))
        elif kind == "fourth":
            found[name][KURTOSIS] = measure.kurtosis(array, draws["gram", name])
        else:
            found.setdefault(name, {}).update({ENTROPY: array[:, 0], SCORE_VARIANCE: array[:, 1]})
    return found


def flat(x: Wide) -> Wide:
    """Vectors reshaped to one batch axis."""
    return x.reshape(-1) if x.ndim else x[None]


def mean(draws: np.ndarray, replicates: Replicates = INDEPENDENT) -> WithError:
    """The mean, and its standard error, or 0 where there is one number only."""
    error = float(replicates.error(draws)) if len(draws) > 1 else 0.0
    return float(draws.mean()), error


def _limits(
    stages: list[measure.Stage], attentions: Mapping[str, Attention]
) -> dict[str, dict[str, WithError]]:
    """The means over draws of the statistics of stages, as n → ∞; empty where there is no
    limit.
    """
    try:
        found, replicates = measure.at_infinity(stages, attentions, OF_LIMIT)
    except (ValueError, TypeError, NotImplementedError):
        return {}
    return {
        name: {statistic: mean(draws, replicates) for statistic, draws in of.items()}
        for name, of in found.items()
    }


def _limit(x: Wide) -> dict[str, WithError]:
    """Means over the random kernel, or of the deterministic one, with their stated errors."""
    try:
        kernel = ll.kernel(x, samples=OF_LIMIT)
    except (ValueError, TypeError, NotImplementedError):
        return {}
    names = list(measure.of_grams(np.eye(int(x.shape[0]))))
    if isinstance(kernel, ll.RandomKernel):

        def read(K: jax.Array) -> jax.Array:
            return jnp.stack([measure.of_grams(K, jnp)[name] for name in names], axis=-1)

        values, errors = np.asarray(kernel.expect(read)), np.asarray(kernel.error.expect(read))
        return {
            name: (float(v), float(e)) for name, v, e in zip(names, values, errors, strict=True)
        }
    known = isinstance(kernel, ll.KernelMatrix)
    K, error = np.asarray(kernel), np.asarray(kernel.error if known else 0.0)
    value, *moved = (measure.of_grams(K + s * error) for s in (0, 1, -1))
    return {
        name: (float(value[name]), max(abs(float(m[name] - value[name])) for m in moved))
        for name in names
    }
