"""Training of an infinitely wide attention layer with finitely many heads by gradient flow.

As n → ∞ the flow of all n × n matrices closes on the scores and on ∂f/∂A of each head, and is that
of a small network in the coordinates of the inputs (theory, §10). With tokens z_i of K = z zᵀ, and
u_i of the Gram matrix G = u uᵀ of the readout, M and w standard normal for each head,

    f = Σ_a Σ_ij A(p^a)_ij D^a_ij,      p = σ_Q σ_K z M zᵀ,      D = σ_O σ_V H^{-1/2} u w zᵀ,
    dM/dt = −2 ∂L/∂M,      dw/dt = −2 ∂L/∂w

with 2 since a product of two matrices is trained in both. Heads of fixed dimension d have p = (z
W_Q) (z W_K)ᵀ/√d, o = A z W_V and f = Σ_a (dH)^{-1/2} ⟨u B^a, o^a⟩, and follow −∂L in W_Q, W_K, W_V
and B. The scores move by O(1): the tangent kernel is not constant in training.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import as_key, non_negative_number, positive_int, real_array, shown
from limitlaw.engines.bounds import check_memory
from limitlaw.engines.run import keys_of_draws
from limitlaw.float64 import in_float64
from limitlaw.laws import Empirical
from limitlaw.numerics.random import normal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RUNS = 64  # initialisations that are followed together
MOST_STEPS = 2**14
ROUNDING = 1e-6, 1e-8  # relative and absolute errors of a step of the solver

Loss = Callable[[Float[Array, " m"], Float[Array, " m"]], Float[Array, " m"]]
LOSSES: dict[str, Loss] = {
    "squared": lambda f, t: (f - t) ** 2 / 2,
    "logistic": lambda f, t: jnp.logaddexp(0, -t * f),
}


class FlowWeights(NamedTuple):
    """Coordinates of the matrices of all heads: (M, w), or (W_Q, W_K, W_V, B) at fixed d."""

    score: tuple[Float[Array, "H ..."], ...]
    value: tuple[Float[Array, "H ..."], ...]


@dataclasses.dataclass(frozen=True)
class AttentionLayer:
    """One layer of attention with a fixed random readout, f = n^{-1/2} Σ_i u_i·y_i.

    Parameters:
        heads, head_dim, mask, q_std, k_std, v_std, o_std: as those of `attention`; the mask is
            None, "causal" or booleans (s, s).
        readout: which tokens are read out: the place of one of them, "mean" for their mean, or
            "each" for a vector u_i of its own for each.

    Examples:
        >>> import limitlaw as ll
        >>> ll.AttentionLayer(heads=2, q_std=6.0).readout
        0
    """

    heads: int
    head_dim: int | None = None
    mask: Any = None
    q_std: float = 1.0
    k_std: float = 1.0
    v_std: float = 1.0
    o_std: float = 1.0
    readout: int | str = 0

    def __post_init__(self) -> None:
        positive_int("heads", self.heads)
        if self.head_dim is not None:
            positive_int("head_dim", self.head_dim)
        for name in ("q_std", "k_std", "v_std", "o_std"):
            non_negative_number(name, getattr(self, name))

    def seen(self, s: int) -> np.ndarray:
        """Which tokens each attends to, (s, s)."""
        if self.mask is None:
            return np.ones((s, s), bool)
        mask = np.tril(np.ones((s, s), bool)) if isinstance(self.mask, str) else self.mask
        if self.mask != "causal" if isinstance(self.mask, str) else np.shape(mask) != (s, s):
            raise ValueError(f'mask must be None, "causal" or ({s}, {s}) booleans: {self.mask!r}')
        return np.asarray(mask, bool)

    def readers(self, s: int) -> np.ndarray:
        """The factor u of the Gram matrix of the readout's vectors, (s, g)."""
        if self.readout == "each":
            return np.eye(s)
        if self.readout == "mean":
            return np.full((s, 1), 1 / s)
        if isinstance(self.readout, str) or not -s <= self.readout < s:
            raise ValueError(
                f'readout must be a token of {s}, "mean" or "each", got {self.readout!r}'
            )
        return np.eye(s)[:, [self.readout]]

    def draw(self, key: Key[Array, ""], D: int, g: int) -> FlowWeights:
        """Standard normal coordinates for inputs in R^D and g readout vectors."""
        H, d, keys = self.heads, self.head_dim, jax.random.split(key, 4)
        if d is None:
            M, w = normal(keys[0], (H, D, D)), normal(keys[1], (H, g, D))
            return FlowWeights((M,), (w,))
        q, k, v = (normal(key, (H, D, d)) for key in keys[:3])
        return FlowWeights((q, k), (v, normal(keys[3], (H, g, d))))

    def scores(self, w: FlowWeights, z: Float[Array, "s D"]) -> Float[Array, "H s s"]:
        """p^a of one sequence."""
        std = self.q_std * self.k_std
        if self.head_dim is None:
            return std * jnp.einsum("id,hde,je->hij", z, w.score[0], z)
        q, k = (jnp.einsum("sD,hDd->hsd", z, W) for W in w.score)
        return std * self.head_dim**-0.5 * jnp.einsum("hid,hjd->hij", q, k)

    def attention(self, w: FlowWeights, z: Float[Array, "s D"]) -> Float[Array, "H s s"]:
        """A^a = softmax(p^a) of one sequence."""
        seen = self.seen(len(z))
        return jax.nn.softmax(jnp.where(seen, self.scores(w, z), -jnp.inf), where=seen)

    def output(self, w: FlowWeights, z: Float[Array, "s D"]) -> Float[Array, ""]:
        """f of one sequence."""
        A, u, std = self.attention(w, z), self.readers(len(z)), self.o_std * self.v_std
        if self.head_dim is None:
            D = jnp.einsum("ig,hgD,jD->hij", u, w.value[0], z)
            return std * self.heads**-0.5 * (A * D).sum()
        value, B = w.value
        o = A @ jnp.einsum("jD,hDd->hjd", z, value)
        return std * (self.head_dim * self.heads) ** -0.5 * jnp.einsum("ig,hgd,hid->", u, B, o)


@dataclasses.dataclass(frozen=True)
class Training:
    """Networks along their training. Arrays have the draws in front, then the `times` (T,).

    `loss`: (N, T), summed over training inputs.
    """

    layer: AttentionLayer
    times: Float[np.ndarray, " T"]
    loss: Float[np.ndarray, "N T"]
    _weights: FlowWeights = dataclasses.field(repr=False)
    _inputs: Float[np.ndarray, "m s D"] = dataclasses.field(repr=False)

    def outputs(self, inputs: Any = None) -> np.ndarray:
        """f of inputs (m, s, D), by default those of the training: (N, T, m)."""
        return self._read(self.layer.output, inputs)

    def scores(self, inputs: Any = None) -> np.ndarray:
        """The scores p of inputs: (N, T, m, H, s, s)."""
        return self._read(self.layer.scores, inputs)

    def attention(self, inputs: Any = None) -> np.ndarray:
        """The attention weights of inputs: (N, T, m, H, s, s)."""
        return self._read(self.layer.attention, inputs)

    def law(self, inputs: Any = None, at: int = -1) -> Empirical:
        """The law of outputs over initialisations at the time number `at`: shape (m,)."""
        return Empirical(self.outputs(inputs)[:, at], "sampled", ("training",))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The loss along training: its median and the band that holds 80 % of networks."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
        low, middle, high = np.quantile(self.loss, [0.1, 0.5, 0.9], axis=0)
        ax.plot(self.times, middle, label="median")
        ax.fill_between(self.times, low, high, alpha=0.25, label="80 % of networks")
        ax.set(xlabel="time", ylabel="loss", yscale="log")
        ax.legend(frameon=False)
        return ax

    @in_float64
    def _read(self, function: Callable[..., Array], inputs: Any) -> Any:
        x = self._inputs if inputs is None else _tokens(inputs, self._inputs.shape[2])
        one = jax.eval_shape(function, jax.tree.map(lambda w: w[0, 0], self._weights), x[0])
        check_memory(self.loss.size, len(x) * one.size, "ask for fewer inputs")
        z = jnp.asarray(x) / x.shape[2] ** 0.5
        for_inputs = jax.vmap(function, (None, 0))
        for_times = jax.vmap(for_inputs, (0, None))
        return jax.jit(jax.vmap(for_times, (0, None)))(self._weights, z)


@in_float64
def train(
    layer: Any,
    inputs: Any,
    targets: Any,
    loss: str | Loss = "squared",
    *,
    time: float,
    times: int = 33,
    samples: int = 256,
    key: Any = 0,
    linearised: bool = False,
) -> Training:
    """Gradient flow of an infinitely wide attention layer over random initialisations:

        dw/dt = −∂/∂w Σ_i ℓ(f(x_i), t_i)      for the weights w of all matrices W = σ w/√cols.

    It is the limit of networks of one attention layer in this parametrisation, with a readout that
    is not trained, and of gradient descent with small steps. Whether it learns a task depends on
    the scales and on the time. Needs `pip install 'limitlaw[learning]'` (diffrax).

    Parameters:
        layer: an `AttentionLayer`.
        inputs: tokens (m, s, D), whose kernel is z zᵀ with z = x/√D.
        targets: (m,).
        loss: "squared", (f − t)²/2; "logistic", log(1 + e^{−tf}) for t = ±1; or a function of f
            and t, both (m,), that gives the loss of each.
        time: how long; `times` moments from 0 to there are kept.
        samples, key: how many initialisations. Number i depends on (key, i) only.
        linearised: train f(w₀) + ∂f/∂w (w − w₀) instead, with the tangent kernel frozen at its
            initial, random value.

    Examples:
        >>> import limitlaw as ll, numpy as np
        >>> x = np.random.default_rng(0).normal(size=(3, 4, 5))
        >>> layer = ll.AttentionLayer(heads=2)
        >>> run = ll.train(layer, x, [1.0, -1.0, 0.5], time=20.0, samples=8)
        >>> bool((run.loss[:, -1] < run.loss[:, 0]).all())
        True
    """
    if not isinstance(layer, AttentionLayer):
        raise TypeError(f"layer must be an AttentionLayer, got {shown(layer)}")
    x, t = _tokens(inputs), np.asarray(real_array("targets", targets))
    if t.shape != (len(x),):
        raise ValueError(f"targets must have shape ({len(x)},), one an input, got {t.shape}")
    if not 0 < float(time) < np.inf:
        raise ValueError(f"time must be a positive number, got {time!r}")
    N, T, H = positive_int("samples", samples), positive_int("times", times), layer.heads
    g, D, per_token = layer.readers(x.shape[1]).shape[1], x.shape[2], layer.head_dim or x.shape[2]
    check_memory(N * T, H * per_token * (3 * D + g), "ask for fewer samples or times")
    flow = _Flow(layer, _loss(loss), linearised)
    moments = np.linspace(0, float(time), T)
    found = flow.solved(jnp.asarray(x), jnp.asarray(t), moments, N, as_key(key))
    if not np.all(found[2]):
        raise RuntimeError(
            f"train: {int((~np.asarray(found[2])).sum())} of {N} networks needed more than "
            f"{MOST_STEPS} steps: the flow is stiff or diverges; take a shorter time, or smaller "
            "scales or targets"
        )
    return Training(layer, moments, np.asarray(found[1]), found[0], x)


class _Flow(NamedTuple):
    """A layer, its loss, and whether its tangent kernel is frozen."""

    layer: AttentionLayer
    loss: Loss
    linearised: bool

    def solved(
        self, x: Array, t: Array, moments: np.ndarray, samples: int, key: Key[Array, ""]
    ) -> tuple[FlowWeights, Float[Array, "N T"], Any]:
        """Weights and losses at all moments of time, and whether the solver came to the end."""
        z, g = x / x.shape[2] ** 0.5, self.layer.readers(x.shape[1]).shape[1]

        def one(key: Key[Array, ""]) -> Any:
            first = self.layer.draw(key, x.shape[2], g)
            return self._followed(first, z, t, jnp.asarray(moments))

        return jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=min(MOST_RUNS, samples)))(
            keys_of_draws(key, 0, samples)
        )

    def _followed(self, first: FlowWeights, z: Array, t: Array, moments: Array) -> Any:
        """One network."""
        diffrax = _diffrax()
        model = functools.partial(self._outputs, first, z)
        rate = 2.0 if self.layer.head_dim is None else 1.0

        def total(w: FlowWeights) -> Array:
            return self.loss(model(w), t).sum()

        def field(_: Any, w: FlowWeights, __: Any) -> FlowWeights:
            return jax.tree.map(lambda g: -rate * g, jax.grad(total)(w))

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            moments[0],
            moments[-1],
            None,
            first,
            saveat=diffrax.SaveAt(ts=moments),
            stepsize_controller=diffrax.PIDController(*ROUNDING),
            max_steps=MOST_STEPS,
            throw=False,
        )
        done = solution.result == diffrax.RESULTS.successful
        return solution.ys, jax.vmap(total)(solution.ys), done

    def _outputs(self, first: FlowWeights, z: Array, w: FlowWeights) -> Float[Array, " m"]:
        """f of all inputs, or its linear part about the first weights."""

        def f(w: FlowWeights) -> Array:
            return jax.vmap(self.layer.output, (None, 0))(w, z)

        if not self.linearised:
            return f(w)
        moved = jax.tree.map(jnp.subtract, w, first)
        start, slope = jax.jvp(f, (first,), (moved,))
        return start + slope


def _loss(loss: Any) -> Loss:
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    if not callable(loss):
        raise ValueError(f"loss must be one of {sorted(LOSSES)} or a function, got {loss!r}")
    return loss


def _tokens(value: Any, D: int | None = None) -> np.ndarray:
    x = np.asarray(real_array("inputs", value))
    if x.ndim != 3 or not x.size or (D is not None and x.shape[2] != D):
        wanted = "D" if D is None else D
        raise ValueError(f"inputs must be tokens of shape (m, s, {wanted}), got {x.shape}")
    return x


def _diffrax() -> Any:
    try:
        import diffrax
    except ImportError:
        raise ModuleNotFoundError(
            "train needs diffrax: pip install 'limitlaw[learning]'"
        ) from None
    return diffrax
