"""Statistics along depth against brute force, closed forms and each other."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from depth.brute import Brute
from limitlaw import nn
from limitlaw.numerics.replicates import INDEPENDENT

DRAWS, DEPTH = 6000, 3
KERNEL = np.array([[1.0, 0.3, 0.0], [0.3, 1.2, -0.2], [0.0, -0.2, 0.8]])
ENTRIES = {"K00": (0, 0), "K01": (0, 1), "K12": (1, 2)}
PAIRS = {
    name: functools.partial(lambda K, p, place: K[place], place=place)
    for name, place in ENTRIES.items()
}


def of_entries(kernels: np.ndarray) -> dict[str, np.ndarray]:
    return {name: kernels[:, :, i, j] for name, (i, j) in ENTRIES.items()}


def compare(trace: ll.depth.Trace, truth: dict[str, np.ndarray], sigmas: float = 5.0) -> None:
    """Means and spreads of the entries after each block, within their standard errors."""
    for name, draws in truth.items():
        found = trace[name]
        error = np.hypot(draws.std(axis=0) / math.sqrt(len(draws)), found.error)
        assert (np.abs(found.value - draws.mean(axis=0)) <= sigmas * error + 1e-12).all(), name
        squares = (draws - draws.mean(axis=0)) ** 2
        error_of_spread = (
            squares.std(axis=0)
            / math.sqrt(len(draws))
            / (2 * np.sqrt(squares.mean(axis=0)) + 1e-30)
        )
        allowed = sigmas * error_of_spread * math.sqrt(1 + len(draws) / trace.samples) + 1e-12
        assert (np.abs(found.spread - draws.std(axis=0)) <= allowed).all(), name


CASES: dict[str, tuple[Brute, dict[str, Any]]] = {
    "pre-norm, grouped queries, causal": (
        Brute(16, 4, 4, 2, causal=True),
        {"kv_heads": 2, "mask": "causal", "hidden": 2 * ll.n},
    ),
    "post-norm, rotary, gated": (
        Brute(16, 2, 4, 2, norm="post", rms=True, gated=True, rotary=True),
        {
            "norm": "post",
            "normalise": ll.rmsnorm,
            "gated": True,
            "phi": ll.silu,
            "positions": nn.Rotary(),
            "hidden": 2 * ll.n,
        },
    ),
    "no norm, shared weights, linear biases, biases": (
        Brute(16, 2, 4, 2, norm="none", shared=True, alibi=True, bias_std=0.3, scale=0.5),
        {
            "norm": "none",
            "shared": True,
            "positions": nn.Alibi(),
            "bias_std": 0.3,
            "scale": 0.5,
            "hidden": 2 * ll.n,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_brute_force(name: str) -> None:
    """Every matrix drawn in NumPy."""
    brute, options = CASES[name]
    rng = np.random.default_rng(1)
    x = np.linalg.cholesky(KERNEL) @ rng.normal(size=(DRAWS, 1, 3, 16))
    depth = 2 if brute.shared else DEPTH  # which is written out
    y = nn.transformer(ll.initial((3,), cov=KERNEL), depth, brute.heads, 4, **options)
    compare(
        ll.trace(y, PAIRS, width=16, samples=DRAWS, key=2),
        of_entries(brute.kernels(x, depth, rng)),
    )


def test_two_sequences() -> None:
    """Tokens attend within their sequence; the kernel is over both."""
    brute = Brute(12, 2, 3, 2, norm="pre", rms=True)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(DRAWS, 2, 2, 12))
    y = nn.transformer(ll.initial((2, 2)), 2, 2, 3, normalise=ll.rmsnorm, hidden=2 * ll.n)
    compare(
        ll.trace(y, PAIRS, width=12, samples=DRAWS, key=4), of_entries(brute.kernels(x, 2, rng))
    )


def test_numbers_of_the_theory() -> None:
    """Attention-only residual stack, s = 4, one head, K = I (theory §5)."""
    y = nn.transformer(ll.initial((4,)), 3, 1, norm="none", hidden=None)
    found = ll.trace(
        y,
        {
            "K01": lambda K, p: K[0, 1],
            "variance": ll.depth.STATISTICS["variance"].read,
            "K00": lambda K, p: K[0, 0],
            "correlation": ll.depth.STATISTICS["correlation"].read,
        },
        samples=2**16,
    )
    assert found["K00"].value[3] == pytest.approx(3.6833, abs=1e-3)
    assert found["K01"].value[3] == pytest.approx(2.0931, abs=1e-3)
    assert found["K00"].spread[3] == pytest.approx(0.4207, abs=1e-3)
    assert found["correlation"].value[3] == pytest.approx(0.5697, abs=1e-3)
    assert found["variance"].error[3] < 2e-3


def test_width_approaches_the_limit() -> None:
    """The mean at width n is that of the limit + c/n + d/n²: with 4n beside n, c/n is taken away.

    (4 (c/4n + d/16n²) − (c/n + d/n²))/3 = −d/(4n²) is left.
    From widths 8, 16 and 32 with 2^18 draws each, the largest
    |d| of these statistics is that of the variance, −1.7 ± 0.7: 4 is three standard errors beyond
      it.
    """
    n, most = 64, 4.0
    y = nn.transformer(ll.initial((3,), cov=KERNEL), 2, 2, norm="none", hidden=None)
    limit = ll.trace(y, ["variance", "entropy", "correlation"], samples=2**14)
    narrow, broad = (
        ll.trace(y, list(limit), width=width, samples=2**15, key=width) for width in (n, 4 * n)
    )
    for name in limit:
        value = (4 * broad[name].value - narrow[name].value) / 3
        error = np.sqrt(16 * broad[name].error ** 2 + narrow[name].error ** 2) / 3
        allowed = 5 * np.hypot(error, limit[name].error) + most / (4 * n**2)
        assert (np.abs(value - limit[name].value) < allowed)[1:].all(), name


def test_written_out_is_the_loop() -> None:
    """A sequence of layers, and a loop, and one that cannot be followed: the same statistics."""
    x = ll.initial((3,), cov=KERNEL)
    block = functools.partial(nn.block, heads=1, norm="none", hidden=None)
    first = block(x)
    names = ["variance", "entropy", "kurtosis"]
    layers = ll.trace([x, first, block(first)], names, samples=2**13)
    loop = ll.trace(ll.repeat(block, x, 2), names, samples=2**13)
    for name in names:
        error = 5 * np.hypot(layers[name].error, loop[name].error)
        np.testing.assert_array_less(
            np.abs(layers[name].value - loop[name].value)[1:], error[1:] + 1e-12
        )
    bent = ll.trace(
        ll.repeat(lambda w: ll.relu(w) + nn.attention(w, 1), x, 2), ["variance"], samples=64
    )
    assert len(bent) == 3


def test_kurtosis_is_that_of_the_law() -> None:
    """In the limit and at finite width, where a coordinate is one of a vector in a
    uniform direction.
    """
    y = nn.transformer(ll.initial((3,), cov=KERNEL), 1, 1, norm="none", hidden=None)
    trace = ll.trace(y, ["kurtosis", "kl"], samples=2**13)
    laws = [ll.limit(y[i], samples=2**13) for i in range(3)]
    kurtosis, error = np.mean([law.kurtosis() for law in laws]), trace["kurtosis"].error[1]
    assert trace["kurtosis"].value[1] == pytest.approx(kurtosis, abs=5 * error)
    last = laws[2]
    divergence = ll.divergence.kl(last, ll.Gaussian(0.0, float(last.variance())))
    assert trace["kl"].value[1] == pytest.approx(
        divergence.value, abs=5 * trace["kl"].error[1] + divergence.error
    )
    at_width = ll.trace(y, ["kurtosis"], width=8, samples=2**14, key=0)
    draws = np.asarray(ll.finite_samples(y, 8, 2**17, jax.random.key(1)))
    x = draws / draws.std(axis=0)
    error = (x**4).std(axis=0) / math.sqrt(len(x))
    measured, sigma = (x**4).mean() - 3, float(np.mean(error))
    assert abs(at_width["kurtosis"].value[1] - measured) < 5 * math.hypot(
        sigma, at_width["kurtosis"].error[1]
    )
    assert abs(trace["kurtosis"].value[0]) < 1e-12


def test_statistics_of_known_kernels() -> None:
    """Uniform and one-hot attention, equal and orthogonal tokens."""
    read = {name: statistic.read for name, statistic in ll.depth.STATISTICS.items()}
    uniform, one_hot = jnp.zeros((2, 4, 4)), jnp.eye(4)[None] * 1e9
    causal = jnp.where(np.tri(4, dtype=bool), 0.0, -jnp.inf)[None]
    eye, ones = jnp.eye(4), jnp.ones((4, 4))
    assert read["entropy"](eye, uniform) == pytest.approx(math.log(4))
    assert read["entropy"](eye, one_hot) == 0
    assert read["entropy"](eye, causal) == pytest.approx(np.log([1, 2, 3, 4]).mean())
    assert read["entropy"](eye, (uniform, one_hot)) == pytest.approx(math.log(4) / 2)
    assert read["participation"](eye, uniform) == pytest.approx(0.25)
    assert read["participation"](eye, one_hot) == 1
    assert read["score_variance"](eye, jnp.where(causal == 0, 2.0, -jnp.inf)) == pytest.approx(4)
    assert np.isnan(read["entropy"](eye, None))
    assert read["effective_rank"](eye, None) == pytest.approx(4)
    assert read["effective_rank"](1e200 * ones, None) == pytest.approx(1)
    assert read["effective_rank"](0 * ones, None) == 0
    assert read["correlation"](3 * ones, None) == pytest.approx(1)
    assert read["correlation_min"](jnp.array([[1.0, -0.5], [-0.5, 1.0]]), None) == pytest.approx(
        -0.5
    )
    assert np.isnan(read["correlation"](jnp.eye(1), None))


def test_deep_without_norm() -> None:
    """200 blocks: variances of 1e60 and correlations of 1 stay numbers,
    also with one-hot attention.
    """
    for q_std in (1.0, 1e10):
        y = nn.transformer(ll.initial((3,)), 200, 1, norm="none", hidden=None, q_std=q_std)
        trace = ll.trace(y, ["variance", "correlation", "entropy"], samples=16)
        for name in trace:
            assert np.isfinite(trace[name].value[1:]).all(), name
        assert trace["correlation"].value[-1] > 0.9
    assert trace["entropy"].value[1] < 1e-6


def test_table() -> None:
    """Rows, records, text, HTML and a picture."""
    y = nn.transformer(ll.initial((3,)), 2, 1, norm="none", hidden=None)
    trace = ll.trace(y, ["variance", "entropy"], samples=64)
    assert len(trace) == 3
    assert list(trace) == ["variance", "entropy"]
    assert "beyond Theorem 3.1" in str(trace)
    assert trace.to_csv().splitlines()[0] == "layer,statistic,value,error,spread,width"
    assert len(trace.records()) == 6
    assert trace._repr_html_().count("<tr>") == 4
    figure = trace.plot(ll.trace(y, ["variance"], width=8, samples=16, key=0))
    assert [panel.get_title() for panel in figure.axes] == ["variance", "attention entropy (nats)"]
    with pytest.raises(KeyError, match="among the statistics variance, entropy"):
        trace["kl"]


def test_a_statistic_of_arrays() -> None:
    """It has a column for each entry; a large one is refused where it would be shown."""
    x = ll.initial((2,), cov=np.diag([1.0, 4.0]))
    y = ll.repeat(lambda w: w + ll.dense(w), x, 2)
    trace = ll.trace(y, {"spectrum": lambda K, p: jnp.linalg.eigvalsh(K), "K": lambda K, p: K})
    np.testing.assert_allclose(trace["spectrum"].value, [[1, 4], [2, 8], [4, 16]])
    head = "layer spectrum[0] spectrum[1] K[0, 0] K[0, 1] K[1, 0] K[1, 1]"
    assert " ".join(trace.head) == head
    assert "spectrum[1]" in str(trace)
    assert trace._repr_html_().count("<tr>") == 4
    assert [r["value"] for r in trace.records() if r["statistic"] == "spectrum[1]"] == [4, 8, 16]
    assert len(trace.plot().axes) == 6
    large = ll.trace(y, {"many": lambda K, p: jnp.ones((9, 9))})
    with pytest.raises(ValueError, match=r"'many' has shape \(9, 9\)"):
        str(large)


def test_a_statistic_of_the_law() -> None:
    """One of a user's own that says so is refused where a layer ends in a nonlinearity."""
    tails = ll.depth.Statistic("tails", lambda K, p: jnp.diagonal(K), of_the_law=True)
    y = ll.repeat(lambda w: ll.relu(ll.dense(w)), ll.initial((2,)), 1)
    with pytest.raises(ValueError, match="tails need layers whose coordinates are Gaussian"):
        ll.trace(y, tails)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda K: K[0, 0], "raised TypeError: .* takes 1 positional argument"),
        (lambda K, p: p.max(), "raised AttributeError: .*; scores are None in row 0"),
        (lambda K, p: float(K[0, 0]), "raised ConcretizationTypeError"),
        (lambda K, p: "many", "raised ValueError: could not convert"),
    ],
)
def test_a_statistic_that_fails(f: Any, said: str) -> None:
    """It is named, and what it raised."""
    y = nn.transformer(ll.initial((2,)), 1, 1, norm="none", hidden=None)
    with pytest.raises((TypeError, ValueError), match=f"(?s)statistics: 'mine' must be .*{said}"):
        ll.trace(y, {"mine": f}, samples=4)


def test_a_statistic_of_several_shapes() -> None:
    """Rows of a table are of one shape."""
    y = nn.transformer(ll.initial((2,)), 1, 1, norm="none", hidden=None)
    mine = {"mine": lambda K, p: jnp.zeros(() if p is None else 2)}
    with pytest.raises(
        ValueError, match=r"'mine' must have one shape in all rows, got \(\), \(2,\)"
    ):
        ll.trace(y, mine, samples=4)


def test_loops_inside_blocks() -> None:
    """Rows are those of the outer blocks; what stands before the first has no scores."""
    x, M = ll.initial((2,)), ll.Matrix()
    inner = functools.partial(nn.block, heads=1, norm="none", hidden=None)
    nested = ll.repeat(lambda w: ll.repeat(inner, w, 2) + 0.1 * (M @ x), x, 3)
    trace = ll.trace(nested, ["variance"], samples=32)
    assert len(trace) == 4
    assert (np.diff(trace["variance"].value) > 0).all()
    behind = ll.trace(ll.repeat(inner, x + nn.attention(x, 7), 2), ["entropy"], samples=16)
    assert np.isnan(behind["entropy"].value[0])
    with pytest.raises(ValueError, match="shared=True needs a block without a loop inside"):
        ll.repeat(lambda w: ll.repeat(inner, w, 2), x, 2, shared=True)


def test_nothing_random() -> None:
    """A deterministic chain has no error."""
    trace = ll.trace(ll.repeat(lambda w: w + ll.dense(w), ll.initial((2,)), 3), ["variance"])
    np.testing.assert_allclose(trace["variance"].value, [1, 2, 4, 8])
    assert (trace["variance"].error == 0).all()
    assert (trace["variance"].spread == 0).all()


def test_kl_in_few_dimensions() -> None:
    """The density of a coordinate of a uniform direction integrates to one;
    below four dimensions nothing is said.
    """
    v = 1.3
    for dim in (4, 5, 64):
        x = np.linspace(-1, 1, 200_001) * math.sqrt(dim * v)  # the length of the vector
        density = np.exp(ll.depth.statistics.log_density(x, v, dim))
        assert density.sum() * (x[1] - x[0]) == pytest.approx(1, abs=1e-6)
    assert np.isnan(
        ll.depth.statistics.kl_from_gaussian(np.ones((4, 2, 3)), INDEPENDENT, 3).value
    ).all()


@pytest.mark.usefixtures("as_user")
def test_errors() -> None:
    """Each says what was expected and what came."""
    x = ll.initial((3,))
    y = nn.transformer(x, 2, 1, norm="none", hidden=None)
    for mean in (
        nn.transformer(ll.initial((2,), mean=2.0), 1, 1),
        ll.repeat(lambda w: ll.dense(w) + 0.5, x, 2),
    ):
        with pytest.raises(ValueError, match="or vectors have a mean"):
            ll.trace(mean, ["kurtosis"], samples=4)
        assert "kurtosis" not in ll.trace(mean, samples=4).columns
    with pytest.raises(ValueError, match="blocks that were written with repeat"):
        ll.trace(nn.attention(x, 1))
    with pytest.raises(ValueError, match="statistics must be functions or among variance"):
        ll.trace(y, ["foo"])
    with pytest.raises(TypeError, match="names or functions of"):
        ll.trace(y, [3])
    with pytest.raises(ValueError, match="different names"):
        ll.trace(y, ["entropy", "entropy"])
    with pytest.raises(ValueError, match="width must be a positive integer"):
        ll.trace(y, ["entropy"], width=0)
    with pytest.raises(ValueError, match="samples must be a positive integer"):
        ll.trace(y, ["entropy"], samples=0)
    with pytest.raises(ValueError, match="kurtosis need layers whose coordinates are Gaussian"):
        ll.trace(
            ll.repeat(lambda w: ll.relu(w) + nn.attention(w, 1), x, 2), ["kurtosis"], samples=4
        )
    with pytest.raises(TypeError, match="trace draws numbers and cannot run inside"):
        jax.jit(
            lambda q: (
                ll.trace(nn.transformer(x, 2, 1, q_std=q), ["entropy"], samples=4)["entropy"].value
            )
        )(1.0)
