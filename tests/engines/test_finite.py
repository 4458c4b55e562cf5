"""`finite` and `finite_samples` as users see them."""

import functools
import math
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest
from eager import defined

import limitlaw as ll
from limitlaw.engines import engine
from limitlaw.engines.frames.finite import demanded_outputs, one_draw
from limitlaw.engines.frames.statistics import Conditions
from limitlaw.laws import Combination
from statistics_of_samples import disagreement

DRAWS = 8_000


def tokens(s: int = 3) -> ll.Wide:
    return ll.relu(ll.matrices(s) @ ll.initial())


def layer() -> ll.Wide:
    return ll.attention(ll.initial((3,), cov=np.eye(3) + 0.5), 2)


# --- What comes back -----------------------------------------------------------------------------


def test_a_gaussian_mixture() -> None:
    """Its samples, plain samples and the definition have one law;
    its figures are those of the samples.
    """
    y = layer()
    law = ll.finite(y, 4, DRAWS, jax.random.key(0))
    assert isinstance(law, ll.GaussianMixture)
    assert law.shape == (3,)
    plain = np.asarray(ll.finite_samples(y, 4, DRAWS, jax.random.key(1)))
    assert plain.shape == (DRAWS, 3)
    sampled = np.asarray(law.sample(jax.random.key(2), DRAWS))
    assert disagreement(sampled, plain) < 1
    assert disagreement(sampled, defined(y, 4, DRAWS, 3)) < 1
    square = plain**2
    error = np.hypot(square.std(axis=0) / math.sqrt(DRAWS), np.asarray(law.error.variance()))
    assert (np.abs(square.mean(axis=0) - law.variance()) < 5 * error).all()


def test_one_token_has_the_law_of_the_marginal() -> None:
    y = layer()
    one, all_of_them = ll.finite(y[0], 4, DRAWS, 0), ll.finite(y, 4, DRAWS, 1)
    assert one.shape == ()
    x = np.linspace(-3, 3, 13)
    marginal = all_of_them.marginal(0)
    error = np.hypot(np.asarray(one.error.cdf(x)), np.asarray(marginal.error.cdf(x)))
    assert (np.abs(one.cdf(x) - marginal.cdf(x)) < 5 * error).all()


def test_a_last_nonlinearity_is_a_pushforward() -> None:
    """With the atoms of ReLU at 0 and of clip at ±1.
    All 4 coordinates of a token are 0 with probability 1/16.
    """
    w = ll.Matrix() @ tokens(1)[0]
    half = ll.finite(ll.relu(w), 4, DRAWS, 0)
    assert isinstance(half, ll.Pushforward)
    assert half.shape == ()
    points, masses = half.atoms()
    assert points.tolist() == [0.0]
    assert abs(masses[0] - (1 / 2 + 1 / 32)) < 5 * half.error.atoms()[0]
    clipped = ll.finite(ll.clip(w, 1.0), 4, DRAWS, 0)
    points, masses = clipped.atoms()
    assert points.tolist() == [-1.0, 0.0, 1.0]
    truth = defined(ll.clip(w, 1.0), 4, DRAWS, 1)
    assert abs(masses[2] - np.mean(truth == 1)) < 5 * math.hypot(
        0.5 / math.sqrt(DRAWS), clipped.error.atoms()[2]
    )
    assert disagreement(np.asarray(clipped.sample(2, DRAWS)), truth) < 1


def test_a_residual_output_has_component_means() -> None:
    """x + attention(x): the observed coordinate of x is known in each component."""
    x = ll.initial((2,), cov=np.array([[1.0, 0.6], [0.6, 1.0]]))
    y = x + ll.attention(x, 1)
    law = ll.finite(y, 2, DRAWS, 0)
    assert isinstance(law, ll.GaussianMixture)
    means = np.asarray(law._given[0])
    assert np.abs(np.cov(means, rowvar=False) - [[1.0, 0.6], [0.6, 1.0]]).max() < 5 * math.sqrt(
        2 / DRAWS
    )
    assert disagreement(np.asarray(law.sample(1, DRAWS)), defined(y, 2, DRAWS, 2)) < 1


def test_numbers_and_functions_of_several_vectors_are_laws_of_draws() -> None:
    x = ll.initial((2,))
    scores = ll.dot(ll.Matrix() @ x, ll.Matrix() @ x)
    gated = ll.silu(ll.Matrix() @ x) * (ll.Matrix() @ x)
    for y, kind, shape in ((scores, ll.Empirical, (2, 2)), (gated, Combination, (2,))):
        law = ll.finite(y, 3, DRAWS, 0)
        assert isinstance(law, kind)
        assert law.shape == shape
        points = np.asarray(law._components.parameters)[:, 0]
        assert disagreement(points, defined(y, 3, DRAWS, 1)) < 1


def test_several_coordinates_are_joint() -> None:
    """At width 2 the squares of two coordinates are strongly correlated,
    which a product law would miss.
    """
    y = ll.attention(ll.initial((2,)), 1)
    law = ll.finite(y, 2, DRAWS, 0, coordinates=2)
    assert law.shape == (2, 2)
    sampled = np.asarray(law.sample(1, DRAWS))
    simulated = np.asarray(ll.simulate(y, 2, DRAWS, 2, coordinates=2))
    assert disagreement(sampled, simulated) < 1
    assert (
        disagreement(np.asarray(ll.finite_samples(y, 2, DRAWS, 3, coordinates=2)), simulated) < 1
    )
    bounded = 1 / (1 + sampled[:, 0] ** 2)
    assert np.corrcoef(bounded, rowvar=False)[0, 1] > 0.2


def test_several_outputs_share_their_draws() -> None:
    x = ll.initial((2,))
    q, k = ll.Matrix() @ x, ll.Matrix() @ x
    draws = ll.finite_samples({"p": ll.dot(q, k), "vectors": (q, [k])}, 3, 50, 0, coordinates=3)
    Q, (K,) = draws["vectors"]
    np.testing.assert_allclose(
        draws["p"], np.einsum("nia,nja->nij", Q, K) / math.sqrt(3), rtol=1e-9, atol=1e-12
    )


# --- What it costs -------------------------------------------------------------------------------


def random_words(y: ll.Wide, width: int) -> int:
    """Random 64-bit words drawn for one component,
    not counting the rounds after a first rejection.
    """
    outputs = demanded_outputs((y.core,))
    arguments = engine.program_of(outputs).arrays
    closed = jax.make_jaxpr(functools.partial(one_draw, outputs, arguments, width, Conditions()))(
        jax.random.key(0)
    )

    def count(jaxpr: jax.extend.core.Jaxpr) -> int:
        total = 0
        for equation in jaxpr.eqns:
            if equation.primitive.name == "random_bits":
                total += math.prod((*equation.invars[0].aval.shape, *equation.params["shape"]))
            elif equation.primitive.name != "while":
                inner = [p for p in equation.params.values() if hasattr(p, "jaxpr")]
                total += sum(count(p.jaxpr) for p in inner)
        return total

    return count(closed.jaxpr)


def by_hand(x: ll.Wide, heads: int) -> ll.Wide:
    """Attention without `attention`."""
    q, k, v = (ll.Matrix(shape=(heads, 1)) @ x for _ in "qkv")
    weights = ll.softmax(ll.dot(q, k))
    return ll.normalised_sum(weights @ (ll.Matrix(shape=(heads, 1)) @ v), 0)


def test_one_token_needs_few_random_numbers() -> None:
    """Gaussian tokens: O(s²) for their Gram, O(s) for each head,
    the same at every width and however it is written.
    """

    def cost(s: int, heads: int, width: int = 1000) -> int:
        return random_words(ll.attention(ll.initial((s,)), heads)[0], width)

    assert cost(4, 2) == cost(4, 2, 10**6) == random_words(by_hand(ll.initial((4,)), 2)[0], 1000)
    assert random_words(by_hand(ll.initial((4,)), 2), 10**6) == random_words(
        ll.attention(ll.initial((4,)), 2), 1000
    )
    per_head = {s: (cost(s, 34) - cost(s, 2)) / 32 for s in (4, 8, 32)}
    assert per_head[4] <= 4 / 2 + 6  # half a word for each normal, two or three for each χ
    assert per_head[32] - per_head[8] <= (32 - 8) / 2 + 1
    assert cost(8, 1) <= 8 * 9 / 2 + 3 * 8 + 20
    assert random_words(ll.attention(ll.initial((4,)), 2), 1000) > 1.5 * cost(4, 2)


def test_draw_i_depends_only_on_the_key_and_i() -> None:
    y = ll.attention(tokens(4), 2)
    laws = {m: ll.finite(y, 16, m, 7) for m in (1, 50, 5000)}
    plain = {m: np.asarray(ll.finite_samples(y, 16, m, 7)) for m in (1, 50, 5000)}
    for m in (1, 50):
        for part, whole in zip(laws[m]._given, laws[5000]._given, strict=True):
            assert (np.asarray(part) == np.asarray(whole)[:m]).all()
        assert (plain[m] == plain[5000][:m]).all()
    assert len(np.unique(plain[5000])) == 4 * 5000
    assert not (np.asarray(ll.finite_samples(y, 16, 50, 8)) == plain[50]).any()


MEMORY = """
import limitlaw as ll

x = ll.clip(ll.matrices(4) @ ll.initial(), 100.0)
law = ll.finite(ll.attention(x, 2)[0], 1024, {samples}, 0)
assert 0.385 < float(law.variance()) < 0.4
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(line.split()[1]) / 2**20)
"""


def peak_gib(samples: int) -> float:
    """Peak resident memory of a process of its own.
    VmHWM: getrusage's peak starts at that of the parent.
    """
    code = textwrap.dedent(MEMORY.format(samples=samples))
    return float(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory() -> None:
    assert peak_gib(SAMPLES_OF_MEMORY_TEST) < 1.0


SAMPLES_OF_MEMORY_TEST = 200_000  # whose coordinates would take 1.5 GiB
