"""Blocks that are repeated, at infinite width: what passes through the loop is the law of x."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit import plan, statistics
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.reading import ReadBy

Block = Callable[[ll.Wide], ll.Wide]
TIMES = 3
K = np.array([[1.0, 0.4], [0.4, 2.0]])


def tokens() -> ll.Wide:
    return ll.initial(2, cov=K)


def linear(x: ll.Wide) -> ll.Wide:
    return x + 0.5 * (ll.Matrix() @ x)


def centred(x: ll.Wide) -> ll.Wide:
    return ll.layernorm(x + ll.Matrix() @ x)


def biased(x: ll.Wide) -> ll.Wide:
    return x + ll.Matrix() @ ll.tanh(ll.Matrix() @ x + ll.initial(mean=0.3))


def through(x: ll.Wide) -> ll.Wide:
    return ll.Matrix() @ ll.relu(x)


def residual(x: ll.Wide) -> ll.Wide:
    return x + 0.5 * ll.relu(ll.Matrix() @ x)  # not Gaussian, and its mean grows


def attention(x: ll.Wide) -> ll.Wide:
    return x + ll.attention(ll.rmsnorm(x), heads=2)


def transformer(x: ll.Wide) -> ll.Wide:
    x = attention(x)
    return x + ll.Matrix() @ ll.relu(ll.Matrix() @ ll.rmsnorm(x))


def narrow(x: ll.Wide) -> ll.Wide:
    return x + ll.attention(x, heads=1, head_dim=3)


def twice(x: ll.Wide) -> ll.Wide:
    return ll.repeat(attention, x, 2)


def infinite(x: ll.Wide) -> ll.Wide:
    return x + ll.attention(ll.rmsnorm(x), heads=np.inf)


def written_out(block: Block, x: ll.Wide, times: int = TIMES) -> ll.Wide:
    for _ in range(times):
        x = block(x)
    return x


def program(y: ll.Wide) -> Limit:
    return Limit((y.core,), statistics.second_moment)


@pytest.mark.parametrize("block", [linear, centred, biased, through, residual])
def test_kernels(block: Block) -> None:
    """Without random scores: the recursion of the kernel, turn after turn."""
    loop = program(ll.repeat(block, tokens(), TIMES))
    assert loop.plan.has_loops
    np.testing.assert_allclose(
        ll.kernel(ll.repeat(block, tokens(), TIMES)),
        ll.kernel(written_out(block, tokens())),
        rtol=1e-12,
    )


@pytest.mark.parametrize("block", [attention, transformer, narrow, twice])
def test_draws(block: Block) -> None:
    """With random scores: the same draws, in the same order."""
    loop, plain = program(ll.repeat(block, tokens(), TIMES)), program(written_out(block, tokens()))
    assert loop.plan.has_loops
    assert loop.recipe == plain.recipe
    np.testing.assert_allclose(
        loop.conditions(64, None).arrays, plain.conditions(64, None).arrays, rtol=1e-11
    )


def test_infinitely_many_heads() -> None:
    """Every turn has columns of its own of the table of nodes."""
    loop, plain = (
        program(ll.repeat(infinite, tokens(), 2)),
        program(written_out(infinite, tokens(), 2)),
    )
    assert loop.plan.has_loops
    K, L = (np.asarray(p.conditions(1, None).arrays).mean(axis=0) for p in (loop, plain))
    np.testing.assert_allclose(K, L, rtol=1e-9)


@pytest.mark.parametrize(
    "y",
    [
        lambda x: ll.repeat(lambda x: ll.tanh(x + ll.relu(ll.Matrix() @ x)), x, TIMES),
        lambda x: (
            ll.Matrix(cols=2)
            @ ll.repeat(lambda v: ll.Matrix(rows=2, cols=2) @ v, ll.Matrix(rows=2) @ x, TIMES)
        ),
    ],
    ids=["function of what is not Gaussian", "fixed dimension"],
)
def test_what_cannot_pass(y: Block) -> None:
    """More than mean and covariance is needed: iterations are written out."""
    assert program(y(tokens())).plan.unrolls


def test_skip_connections_around_a_loop() -> None:
    """x meets what became of it."""
    x, z = tokens(), tokens()
    np.testing.assert_allclose(
        ll.kernel(x + ll.repeat(linear, x, TIMES)),
        ll.kernel(z + written_out(linear, z)),
        rtol=1e-12,
    )


def test_more_numbers_than_points_have() -> None:
    """Beyond the dimensions of the quasi-random points all numbers are random."""
    many = program(ll.repeat(attention, tokens(), 200))
    assert many.recipe == ()
    assert many.plan.requests.overflows
    assert program(ll.repeat(attention, tokens(), 2)).recipe
    few = ll.repeat(lambda x: x + 0.1 * ll.attention(ll.rmsnorm(x), heads=2), tokens(), 150)
    K = np.asarray(program(few).conditions(512, None).arrays).reshape(512, 2, 2)
    # E tr K grows by 0.01 E|A|² a turn, A the rows of a softmax of two scores: between 1/2 and 1
    # for each token.
    assert 1.5 < np.trace(K.mean(axis=0)) - np.trace(np.array([[1.0, 0.4], [0.4, 2.0]])) < 3.0


def test_a_draw_depends_on_its_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all numbers are random: the same draws of however many, and in batches of any size."""
    monkeypatch.setattr(plan, "MOST_DIMENSIONS", 1)
    monkeypatch.setattr(BUDGET, "together", 100)
    # its plan is no other test's
    statistic = ReadBy(lambda draw, outputs: statistics.second_moment(draw, outputs))
    many = Limit((ll.attention(tokens(), heads=2).core,), statistic)
    assert many.plan.requests.overflows

    def draws(samples: int, key: int | None = None) -> np.ndarray:
        return np.asarray(many.conditions(samples, key).arrays).reshape(samples, -1)

    found = draws(1000)
    assert len(np.unique(found[:, 0])) == 1000
    np.testing.assert_array_equal(draws(100), found[:100])
    monkeypatch.setattr(BUDGET, "together", 64)
    np.testing.assert_allclose(draws(200), found[:200], rtol=1e-12)
    assert not np.isclose(draws(64, 1), found[:64]).any()


def test_pools_of_more_numbers_than_points_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many heads on 33 tokens, drawn from pools of single ones:
    each block of draws has its own.
    """
    monkeypatch.setattr(BUDGET, "pool", 64)
    law = ll.limit(ll.attention(ll.initial((33,)), heads=1000), samples=32)
    found, error = (np.diagonal(f()) for f in (law.covariance, law.error.covariance))
    # scores of orthonormal tokens are N(0, 1)
    A = np.exp(np.random.default_rng(0).normal(size=(2**15, 33)))
    truth = np.sum((A / A.sum(axis=1, keepdims=True)) ** 2, axis=1)
    assert (np.abs(found - truth.mean()) < 5 * np.hypot(error, truth.std() / 2**7.5)).all()
    blocks = np.diagonal(law.joint._given[1], axis1=1, axis2=2).reshape(16, 2, 33).mean(axis=1)
    # of a pool, and of the heads that two draws take from it
    expected = truth.var() * (1 / 64 + 1 / 2000)
    assert blocks.var(axis=0, ddof=1).mean() == pytest.approx(
        expected, rel=5 * math.sqrt(2 / (15 * 33))
    )


def test_law_behind_a_loop() -> None:
    """One coordinate of what comes out, with and without a last function."""
    x = tokens()
    loop, plain = ll.repeat(biased, x, TIMES), written_out(biased, x)
    np.testing.assert_allclose(
        ll.limit(loop).covariance(), ll.limit(plain).covariance(), rtol=1e-12
    )
    np.testing.assert_allclose(
        ll.limit(ll.relu(loop)[0]).mean(), ll.limit(ll.relu(plain)[0]).mean(), rtol=1e-12
    )


def test_depth_costs_no_compilation() -> None:
    """As many equations are compiled for 24 turns as for 2: one body."""

    def equations(times: int) -> int:
        ll.clear_cache()
        planned = program(ll.repeat(transformer, ll.initial(2, cov=K), times))
        planned.conditions(4, None)
        return planned.plan.size

    assert equations(24) == equations(2) > 0
