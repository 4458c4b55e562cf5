"""Programs are compiled once for a structure: numbers are arguments of what is compiled,
and the cache is bounded.
"""

import collections
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines import compiled
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.engine import Cache
from limitlaw.engines.frames import finite as finite_width
from limitlaw.engines.limit import draw
from limitlaw.engines.limit.planned import Planned

COMPILED: list[str] = []  # by JAX


@jax.monitoring.register_event_duration_secs_listener
def _note(event: str, duration: float, **_: Any) -> None:
    if "backend_compile" in event:
        COMPILED.append(event)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a program was compiled."""
    count = 0
    waited_for = compiled._waited_for

    def counted(function: Any) -> Any:
        nonlocal count
        count += 1
        return waited_for(function)

    monkeypatch.setattr(compiled, "_waited_for", counted)
    ll.clear_cache()
    return lambda: count


def layer(K: Any = None, std: float = 1.0) -> ll.Wide:
    return ll.attention(
        ll.initial(2, cov=np.eye(2) + 0.1 if K is None else K), heads=2, q_std=std
    )[0]


ENGINES = {"finite": ll.finite, "finite_samples": ll.finite_samples, "simulate": ll.simulate}


@pytest.mark.parametrize("name", ENGINES)
def test_kernels_and_scales(name: str, compilations: Callable[[], int]) -> None:
    """Ten kernels and four scales: one compilation, and other numbers come out."""
    drawn_by = ENGINES[name]
    rng = np.random.default_rng(0)
    kernels = [0.2 + np.diag(rng.uniform(0.5, 2.0, 2)) for _ in range(10)]
    results = [drawn_by(layer(K), 4, 8, jax.random.key(0)) for K in kernels]
    results += [
        drawn_by(layer(std=std), 4, 8, jax.random.key(0)) for std in np.linspace(0.5, 2.0, 4)
    ]
    numbers = [float(np.asarray(r.variance() if isinstance(r, ll.Law) else r[0])) for r in results]
    assert compilations() == 1
    assert len(set(numbers)) == len(numbers)


# --- the first call ------------------------------------------------------------------------------


def solved() -> object:
    return ll.depth.solve(
        lambda c: blocks(o_std=c), "correlation", 0.5, over=(0.1, 3.0), samples=8
    )


def blocks(**scales: Any) -> ll.Wide:
    return ll.transformer(ll.initial((2,)), 2, 1, hidden=None, **scales)


FIRST: dict[str, Callable[[], object]] = {
    "limit": lambda: ll.limit(
        ll.attention(ll.rmsnorm(ll.attention(ll.initial((2,)), 1)), 1)[0], 64
    ),
    "finite": lambda: ll.finite_samples(layer(), 8, 64, 0),
    "simulate": lambda: ll.simulate(layer(), 8, 64, 0),
    "trace": lambda: ll.trace(blocks(), "correlation", samples=8),
    "solve, trace": lambda: (solved(), ll.trace(blocks(), "correlation", samples=8)),
    "gradients": lambda: ll.gradients(blocks(), 8, 8),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_call_follows_a_program_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled to be looked at, before the first draw, is what draws."""
    followed: collections.Counter[Compiled] = collections.Counter()
    made = Compiled.__init__

    def counting(self: Compiled, function: Callable[..., Any], **options: Any) -> None:
        def counted(*arguments: Any) -> Any:
            followed[self] += 1
            return function(*arguments)

        made(self, counted, **options)

    monkeypatch.setattr(Compiled, "__init__", counting)
    ll.clear_cache()
    FIRST[name]()
    shapes = {compiled: len(compiled._known) for compiled in followed}
    assert followed
    assert dict(followed) == shapes
    ll.clear_cache()


WIDTHS = (6, 8, 12, 16, 24, 32, 64, 128, 256, 1024)


@pytest.mark.parametrize("name", ["finite", "finite_samples"])
def test_widths(name: str, compilations: Callable[[], int]) -> None:
    """Ten widths of a layer on Gaussian tokens: n is an argument of what is compiled,
    and other numbers come out.
    """
    results = [ENGINES[name](layer(), width, 8, jax.random.key(0)) for width in WIDTHS]
    numbers = [float(np.asarray(r.variance() if isinstance(r, ll.Law) else r[0])) for r in results]
    assert compilations() == 1
    assert len(set(numbers)) == len(numbers)


def test_widths_that_are_part_of_the_program(compilations: Callable[[], int]) -> None:
    """Fewer dimensions than vectors, and coordinates that are drawn:
    every width is another program.
    """
    for width in (1, 2):
        ll.finite_samples(layer(), width, 8, jax.random.key(0))
    for width in (64, 128):
        ll.finite_samples(
            ll.relu(ll.matrices(2) @ ll.initial()).sum(), width, 8, jax.random.key(0)
        )
    assert compilations() == 4


def test_a_width_that_is_an_argument_gives_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled for all widths gives what is compiled for one:
    the same words make the same lengths.
    """
    y = ll.layernorm(ll.attention(ll.initial(2, mean=0.5), heads=2))
    ll.clear_cache()
    free = ll.finite_samples(y, 64, 50, jax.random.key(3), coordinates=2)
    ll.clear_cache()
    monkeypatch.setattr(finite_width, "least_width", lambda *_: math.inf)
    fixed = ll.finite_samples(y, 64, 50, jax.random.key(3), coordinates=2)
    np.testing.assert_allclose(np.asarray(free), np.asarray(fixed), rtol=1e-9, atol=1e-9)
    ll.clear_cache()


AT_INFINITY: dict[str, Callable[[ll.Wide], Any]] = {
    "limit": lambda y: ll.limit(y + ll.initial(), 8).variance(),
    "kernel": lambda y: ll.kernel(y, 8).mean().sum(),
    "average_law": lambda y: ll.average_law(y, jnp.square, 8).mean(),
}


@pytest.mark.parametrize("name", AT_INFINITY)
def test_kernels_and_scales_at_infinite_width(name: str, compilations: Callable[[], int]) -> None:
    """The same without a width."""
    rng = np.random.default_rng(0)
    programs = [layer(0.2 + np.diag(rng.uniform(0.5, 2.0, 2))) for _ in range(10)]
    programs += [layer(std=std) for std in np.linspace(0.5, 2.0, 4)]
    numbers = [float(AT_INFINITY[name](y)) for y in programs]
    # of a random kernel its draws, and the quadrature of its mean; of averages what all draws
    # share, and the draws
    assert compilations() == {"kernel": 2, "average_law": 2}.get(name, 1)
    assert len(set(numbers)) == len(numbers)


def test_laws_of_heads(compilations: Callable[[], int]) -> None:
    """A quadrature over the scores of one head: the same function gives them,
    and the variance at its nodes.
    """
    laws = [ll.limit(layer(np.diag([1.0, s]) + 0.1)) for s in np.linspace(0.5, 2.0, 5)]
    assert {law.kind for law in laws} == {"quadrature"}
    assert compilations() == 1


def test_positions(compilations: Callable[[], int]) -> None:
    """Of rotary embeddings: other positions of the same reach, up to the next power of two, are
    numbers of the same function.
    """

    def scores(step: float) -> ll.Scalars:
        q, k = (ll.rotary(ll.Matrix() @ x, [0.0, step], base=10.0) for _ in "qk")
        return ll.softmax(ll.dot(q, k))

    x = ll.initial(2, cov=np.eye(2) + 0.1)
    numbers = [
        float(np.asarray(ll.limit(scores(step), 8).covariance())[0, 2])
        for step in np.linspace(2.1, 3.9, 10)
    ]
    assert compilations() == 1
    assert len(set(numbers)) == len(numbers)


def test_what_all_draws_share() -> None:
    """A loop in front of attention, and the kernel of what it gives under a function without a
    closed form, are no part of the function of a draw; they are, where nothing is handed over.
    """
    hinge = lambda z: jnp.maximum(z - 0.3, 0) ** 2
    x = ll.repeat(lambda x: ll.Matrix() @ ll.map(hinge, x), ll.initial(2, cov=np.eye(2) + 0.1), 3)
    program = Planned((ll.attention(x, heads=2)[0].core,), draw.variance)
    plan, drawn = program.plan, (jnp.ones(len(program.recipe)), jax.random.key(0), None, None)
    loops = lambda f, *a: sum(str(jax.make_jaxpr(f)(*a)).count(name) for name in ("scan", "while"))
    apart, together = ((program.arrays, shared) for shared in (program.given[1], []))
    assert plan.prepares
    assert loops(lambda *a: plan.draw(apart, *a), *drawn) == 0
    assert loops(lambda *a: plan.draw(together, *a), *drawn) > 0
    np.testing.assert_allclose(plan.draw(apart, *drawn), plan.draw(together, *drawn), rtol=1e-12)


def test_another_structure_is_another_program(compilations: Callable[[], int]) -> None:
    """Another nonlinearity, and independent tokens."""
    for y in (layer(), layer(np.eye(2)), ll.relu(layer())):
        ll.finite_samples(y, 4, 8, jax.random.key(0))
    assert compilations() == 3


def lambdas(c: float) -> ll.Wide:
    """A loop, with functions that are written in its block: new objects in each program."""

    def block(x: ll.Wide) -> ll.Wide:
        p = ll.apply(lambda p: c * jnp.tanh(p), ll.dot(ll.Matrix() @ x, ll.Matrix() @ x))
        return x + ll.softmax(p) @ ll.map(lambda z: c * z**2, ll.Matrix() @ x)

    return ll.repeat(block, ll.initial(2, cov=np.eye(2) + 0.1), 2)


OF_LAMBDAS: dict[str, Callable[[float], Any]] = {
    "limit": lambda c: ll.limit(lambdas(c)[0], 8).variance(),
    "kernel": lambda c: ll.kernel(lambdas(c), 8).mean().sum(),
    "finite": lambda c: ll.finite_samples(lambdas(c)[0], 8, 8, 0).sum(),
    "simulate": lambda c: ll.simulate(lambdas(c)[0], 8, 8, 0).sum(),
    "trace": lambda c: ll.trace(lambdas(c), {"f": lambda K, _: c * K[0, 1]}, samples=8)["f"].value[
        -1
    ],
    "average_law": lambda c: ll.average_law(layer(), lambda y: c * y**2, 8).mean(),
}


@pytest.mark.parametrize("name", OF_LAMBDAS)
def test_functions_of_the_users_own(name: str, compilations: Callable[[], int]) -> None:
    """The same code that reads the same numbers: compiled once, and again for another number."""
    numbers = [float(np.asarray(OF_LAMBDAS[name](c))) for c in (0.5, 0.5)]
    once = compilations()
    numbers += [float(np.asarray(OF_LAMBDAS[name](c))) for c in (0.25, 0.5)]
    assert compilations() == 2 * once
    assert numbers[0] == numbers[1] == numbers[3] != numbers[2]


def test_the_numbers_are_those_of_the_program() -> None:
    """What was compiled for one kernel gives for another what it gives by itself."""
    K = np.array([[2.0, 0.3], [0.3, 1.0]])
    ll.clear_cache()
    alone = np.asarray(ll.finite_samples(layer(K), 4, 50, jax.random.key(3)))
    ll.clear_cache()
    ll.finite_samples(layer(), 4, 50, jax.random.key(3))
    np.testing.assert_array_equal(
        np.asarray(ll.finite_samples(layer(K), 4, 50, jax.random.key(3))), alone
    )


def test_a_bounded_cache() -> None:
    """The one that was not asked for the longest goes first."""
    cache: Cache[int] = Cache(2)
    made: list[str] = []

    def make(key: str) -> Callable[[], int]:
        return lambda: made.append(key) or len(made)  # type: ignore[func-returns-value]

    for key in "abacab":
        cache.get(key, make(key))
    assert made == ["a", "b", "c", "b"]
    assert len(cache) == 2
    cache.clear()
    assert len(cache) == 0


def test_memory_is_given_back() -> None:
    """Compiled programs are counted by their equations; those that go drop what JAX has compiled
    for them, also while somebody refers to them, who compiles again.
    """

    def made(k: int) -> Compiled:
        function = Compiled(lambda x: sum(jnp.sin(i * x) for i in range(k)))
        cache.get(k, lambda: function)
        function(1.0)
        return function

    cache: Cache[Compiled] = Cache(8, largest=100)
    functions = [made(k) for k in (5, 10, 15)]
    assert [f.function._cache_size() for f in functions] == [1, 1, 1]
    assert sum(f.size for f in functions) == 3 * 30
    functions.append(made(30))  # 90 equations, known when it is compiled
    functions.append(made(2))
    assert [f.function._cache_size() > 0 for f in functions] == [False, False, False, True, True]
    assert functions[0].size == 0
    assert functions[0](0.0) == 0.0
    cache.clear()
    assert [f.function._cache_size() for f in functions[1:]] == [0] * 4


# a gradient, and a density of which derivatives are taken: not inside jax.jit
TRANSFORMED: dict[str, Callable[[], Any]] = {
    "kurtosis of tokens": lambda: jax.grad(lambda q: _attended(q).kurtosis()[0])(1.0),
    "density of a token": lambda: jax.grad(lambda q: _attended(q).marginal(0).pdf(0.5))(1.0),
    "kernel": lambda: jax.grad(lambda q: ll.kernel(ll.relu(q * layer()), 8).mean())(1.0),
}


def _attended(q: Any) -> ll.Law:
    return ll.attention_law(np.eye(2) + 0.1, heads=2, q_std=q, samples=2**10)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations(name: str) -> None:
    """What is transformed without jax.jit is compiled once."""
    first = float(TRANSFORMED[name]())
    before = len(COMPILED)
    assert float(TRANSFORMED[name]()) == first
    assert len(COMPILED) == before


def test_options_that_a_version_does_not_know() -> None:
    """What XLA knows of the options for little effort is asked for, and no more."""

    class Lowered:
        tried: ClassVar[list[int]] = []

        def compile(self, options: dict[str, Any]) -> str:
            self.tried.append(len(options))
            if "xla_cpu_use_fusion_emitters" in options:
                raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: No such compile option: 'x'")
            return "compiled"

    assert compiled._with_little_effort(Lowered()) == "compiled"
    assert Lowered.tried == [3, 2]
