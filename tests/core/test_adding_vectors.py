"""Instructions that make vectors, added from outside of the package: how many places that takes,
and that everything runs them.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.instructions import Contract
from limitlaw.core.kinds import Coordinatewise, Instruction, Linear, Number, Value
from limitlaw.core.labelled import Axes, Axis, Labelled, elementwise, multiply, present, union
from limitlaw.core.program import Output, Program
from limitlaw.language import tree
from limitlaw.language.broadcasting import lowered, together
from limitlaw.language.values import scalars
from limitlaw.phi import Nonlinearity
from statistics_of_samples import disagreement
from validity import validate

DRAWS = 4000


# --- a linear map of two batches: three places ---------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Turned(Linear):
    """x cos θ + y sin θ. The first place: what it is, and what it does to arrays."""

    x: Value
    y: Value
    angle: float

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """To coordinates, coefficients or covariances alike."""
        c, s = math.cos(self.angle), math.sin(self.angle)
        return elementwise(lambda x, y: c * x + s * y, vectors(self.x), vectors(self.y))


@dataclasses.dataclass(frozen=True, eq=False)
class Turn(tree.Op):
    """The second place: what a user writes, and what that is in the core language."""

    x: ll.Wide
    y: ll.Wide
    angle: float

    def lowered(self, value: tree.Value) -> Output:
        layout, (x, y) = together(lowered(self.x), lowered(self.y))
        axes = tuple(axis for axis in layout if axis is not None)
        return Output(Value(Turned(x, y, self.angle), axes, x.dim, value), layout)

    def formula(self, name: Callable[[tree.Value], str]) -> str:
        return f"{name(self.x)} turned to {name(self.y)} by {self.angle:g}"


def turn(x: ll.Wide, y: ll.Wide, angle: float) -> ll.Wide:
    """The third place: a word of the language."""
    return ll.Wide(Turn(x, y, angle), x.shape, x.dim)


# --- a linear map that mixes entries, by given numbers: three places -----------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Accumulated(Linear):
    """a_i Σ_{j ≤ i} x_j along an axis. Given numbers are a value like others."""

    a: Value
    x: Value
    axis: Axis

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        """x may be constant along the axis, and lack it; the sum is not."""
        x = vectors(self.x)
        x = x.with_axes(union(x.axes, (self.axis,)))
        place = x.axes.index(self.axis)
        return multiply(numbers[self.a], x.mapped(lambda w: jnp.cumsum(w, axis=place)))

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        """Entries along the axis, and along no other one."""
        return frozenset((self.axis,))


@dataclasses.dataclass(frozen=True, eq=False)
class Accumulate(tree.Op):
    a: ll.Scalars
    x: ll.Wide

    def lowered(self, value: tree.Value) -> Output:
        layout, (x, a) = together(lowered(self.x), lowered(self.a))
        axis = layout[-1]
        if axis is None:  # along an axis of size 1
            return Output(Value(Contract(a, x, ()), present(layout), x.dim, value), layout)
        return Output(Value(Accumulated(a, x, axis), present(layout), x.dim, value), layout)


def accumulated(a: Any, x: ll.Wide) -> ll.Wide:
    return ll.Wide(Accumulate(scalars(a), x), x.shape, x.dim)


# --- a function of two vectors, coordinate by coordinate: three places ---------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Larger(Coordinatewise):
    """max(x_α, y_α)."""

    x: Value
    y: Value

    @property
    def phi(self) -> Nonlinearity:
        return Nonlinearity("larger", jnp.maximum, pseudo_lipschitz=True, bounded=False)

    @property
    def args(self) -> tuple[Value, ...]:
        return self.x, self.y


@dataclasses.dataclass(frozen=True, eq=False)
class Maximum(tree.Op):
    x: ll.Wide
    y: ll.Wide

    def lowered(self, value: tree.Value) -> Output:
        layout, (x, y) = together(lowered(self.x), lowered(self.y))
        axes = tuple(axis for axis in layout if axis is not None)
        return Output(Value(Larger(x, y), axes, x.dim, value), layout)


def larger(x: ll.Wide, y: ll.Wide) -> ll.Wide:
    return ll.Wide(Maximum(x, y), x.shape, x.dim)


# --- each beside what means the same in words that are there -------------------------------------


def turned_in_words(x: ll.Wide, y: ll.Wide) -> ll.Wide:
    return math.cos(0.7) * x + math.sin(0.7) * y


def larger_in_words(x: ll.Wide, y: ll.Wide) -> ll.Wide:
    return ll.map(jnp.maximum, x, y)


RATES = np.array([1.0, 0.5, 2.0])


def accumulated_in_words(a: np.ndarray, x: ll.Wide) -> ll.Wide:
    return (a[:, None] * np.tri(len(a))) @ x


PAIRS = {
    "turned": (lambda x, y: turn(x, y, 0.7), turned_in_words),
    "larger": (larger, larger_in_words),
}
Word = Callable[[ll.Wide, ll.Wide], ll.Wide]


@pytest.fixture(params=list(PAIRS))
def words(request: pytest.FixtureRequest) -> tuple[Word, Word]:
    """A word that is added, and what means the same."""
    return PAIRS[request.param]


def layer(word: Word) -> ll.Wide:
    """The word behind random scores and before a matrix that others read, too."""
    x = ll.relu(ll.matrices(3) @ ll.initial())
    u = ll.attention(x, heads=1)
    return ll.Matrix() @ word(u, x)


def last(word: Word) -> ll.Wide:
    """The word as the last step, of fresh vectors."""
    x = ll.relu(ll.matrices(3) @ ll.initial())
    return word(ll.Matrix() @ x, ll.attention(x, heads=2))


@pytest.mark.parametrize("net", [layer, last])
def test_at_finite_width(words: tuple[Word, Word], net: Callable[[Word], ll.Wide]) -> None:
    """Dense, exact, and the same by words that are there: one law."""
    mine, theirs = (net(word) for word in words)
    validate(mine.core.value)
    draws = [
        np.asarray(engine(y, 6, DRAWS, jax.random.key(i)))
        for i, (engine, y) in enumerate(
            ((ll.simulate, mine), (ll.finite_samples, mine), (ll.finite_samples, theirs))
        )
    ]
    assert disagreement(draws[0], draws[1]) < 1
    assert disagreement(draws[1], draws[2]) < 1


@pytest.mark.parametrize("net", [layer, last])
def test_in_the_limit(words: tuple[Word, Word], net: Callable[[Word], ll.Wide]) -> None:
    """The law and the kernel are those of the words that are there."""
    mine, theirs = (net(word) for word in words)
    ours, known = (ll.limit(y[0], samples=2**10) for y in (mine, theirs))
    np.testing.assert_allclose(ours.variance(), known.variance(), rtol=2e-2)
    kernels = [np.asarray(ll.kernel(y, samples=2**10).mean()) for y in (mine, theirs)]
    np.testing.assert_allclose(*kernels, rtol=2e-2)


def test_a_kernel_by_formula() -> None:
    """Cov(x cos θ + y sin θ) of vectors with known covariances, without drawing."""
    cov = np.array([[1.0, 0.3], [0.3, 2.0]])
    x = ll.initial(2, cov=cov)
    K = np.asarray(ll.kernel(turn(x[0], x[1], 0.7)))
    c, s = math.cos(0.7), math.sin(0.7)
    np.testing.assert_allclose(K, c * c + 2 * s * s + 2 * c * s * 0.3, rtol=1e-12)


ENGINES = {
    "simulate": lambda y: float(np.var(ll.simulate(y, 8, 100, jax.random.key(0)))),
    "finite": lambda y: float(ll.finite(y, 8, 100, jax.random.key(0)).variance()),
    "limit": lambda y: float(ll.limit(y).variance()),
    "kernel": lambda y: float(ll.kernel(y)),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_other_numbers(engine: str) -> None:
    """Of two programs that differ in given numbers only each has its own law."""
    x = ll.initial(3)
    for a in (RATES, 3 * RATES):
        found = ENGINES[engine](accumulated(a, x)[2])
        assert found == pytest.approx(a[2] ** 2 * 3, rel=1e-9 if engine[0] in "lk" else 0.5)


@dataclasses.dataclass(frozen=True, eq=False)
class Weighed(Linear):
    """a·x for a number of its own: what an instruction must not read in `applied`."""

    x: Value
    a: Number

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        return vectors(self.x).mapped(lambda w: jnp.asarray(self.a.array) * w)


@dataclasses.dataclass(frozen=True, eq=False)
class Weigh(tree.Op):
    x: ll.Wide
    a: float

    def lowered(self, value: tree.Value) -> Output:
        x = lowered(self.x)
        instruction = Weighed(x.value, Number(np.float64(self.a)))
        return Output(Value(instruction, x.value.axes, x.value.dim, value), x.layout)


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_that_an_instruction_may_not_read(engine: str) -> None:
    """One compiled program serves all numbers: one that reads some of its own is refused."""
    x = ll.Matrix() @ ll.initial()
    y = ll.Wide(Weigh(x, 2.0), x.shape, x.dim)
    with pytest.raises(TypeError, match=r"read Number\.array, .* numbers\[value\] in applied"):
        ENGINES[engine](ll.Matrix() @ y)


@pytest.mark.parametrize("a", [np.ones(2), [1.0], {"a": 1}], ids=["array", "list", "dict"])
def test_fields_that_cannot_be_compared(a: Any) -> None:
    """The instruction and its field are named."""
    x = ll.initial()
    y = Value(dataclasses.replace(Weighed(x.core.value, Number(1.0)), a=a), (), x.dim)
    with pytest.raises(TypeError, match=r"Weighed\.a must be a value, .* got "):
        _ = Program((y,)).structure


@pytest.mark.parametrize("engine", ENGINES)
def test_entries_that_are_equal(engine: str) -> None:
    """Vectors with a mean that is constant along the axis."""
    x = ll.initial(3, mean=1.0)
    mine, theirs = (
        ENGINES[engine]((ll.Matrix() @ w(RATES, x))[2])
        for w in (accumulated, accumulated_in_words)
    )
    assert mine == pytest.approx(theirs, rel=0.1 if engine == "finite" else 1e-9)


def summed(heads: float, word: Callable[[ll.Wide], ll.Wide]) -> ll.Wide:
    """A normalised sum over heads, behind a word."""
    each = ll.Matrix(shape=(heads, 1))
    return ll.normalised_sum(word(each @ ll.initial(3)[None]), 0)[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_heads(engine: str) -> None:
    """What is not mixed stays apart: no covariance of one head with another is written out."""
    few = engine in ("simulate", "finite")
    y = summed(4 if few else math.inf, lambda x: accumulated(RATES, x))
    expected = RATES[2] ** 2 * 3
    assert ENGINES[engine](y) == pytest.approx(expected, rel=0.5 if few else 1e-9)


@pytest.mark.parametrize("engine", ["limit", "kernel"])
def test_many_heads_that_may_be_mixed(engine: str) -> None:
    """Where nothing is said of axes all covariances are needed: compiled, they are not held."""
    assert ENGINES[engine](summed(math.inf, lambda x: turn(x, x, 0.0))) == pytest.approx(1.0)


def test_it_is_checked_printed_and_traced(words: tuple[Word, Word]) -> None:
    """By what reads programs rather than draws them; block by block in a network."""
    mine, theirs = words
    y = layer(mine)
    assert not ll.check(y).refused
    assert type(y.op.x.op).__name__ in str(y)

    def block(word: Word) -> Callable[[ll.Wide], ll.Wide]:
        return lambda x: word(ll.Matrix() @ x, ll.Matrix(std=0.5) @ x)

    x = ll.initial(2, cov=np.array([[1.0, 0.5], [0.5, 1.0]]))
    traces = [
        ll.trace(ll.repeat(block(word), x, 3), ["variance"], width=64, samples=2000, key=0)
        for word in (mine, theirs)
    ]
    ours, known = (t["variance"] for t in traces)
    error = 5 * np.hypot(ours.error, known.error)
    assert np.all(np.abs(ours.value - known.value) <= error)


def test_what_is_printed() -> None:
    """The formula that an instruction has of its own, or its name and what it reads."""
    x, y = ll.initial(), ll.initial()
    assert "h₁ turned to h₂ by 0.7" in str(turn(x, y, 0.7))
    assert "Maximum(h₁, h₂)" in str(larger(x, y))


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong(Linear):
    """What is not linear, or does not know axes by their objects."""

    x: Value
    array: Callable[[Labelled, Value], Labelled]

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        return self.array(vectors(self.x), self.x)


@pytest.mark.parametrize(
    ("array", "claim"),
    [
        (lambda a, x: a.mapped(lambda w: w + 1.0), "it is linear"),
        (lambda a, x: a.mapped(lambda w: w[::-1]), "it leaves further axes alone"),
        (lambda a, x: a.sum(x.axes) if x.axes[0] in a.axes else a, "an axis may be missing"),
    ],
)
def test_what_breaks_a_rule(array: Callable[[Labelled, Value], Labelled], claim: str) -> None:
    """`validate` tries on random arrays what `Linear.applied` asks for."""
    x = ll.initial(3).core.value
    with pytest.raises(ValueError, match=claim):
        validate(Value(Wrong(x, array), x.axes, x.dim))


def test_what_is_said_of_axes() -> None:
    """Of instructions that are added above, with what mixes by given numbers."""
    validate(accumulated(RATES, ll.initial(3)).core.value)
    validate(turn(ll.initial(3), ll.initial(3), 0.7).core.value)


# --- what no engine knows ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Sorted(Instruction):
    """The coordinates of a vector in order: no engine has a rule for it."""

    x: Value


@dataclasses.dataclass(frozen=True, eq=False)
class Sort(tree.Op):
    x: ll.Wide

    def lowered(self, value: tree.Value) -> Output:
        x = lowered(self.x)
        return Output(Value(Sorted(x.value), x.value.axes, x.value.dim, value), x.layout)


@pytest.mark.parametrize(
    "ask",
    [
        lambda y: ll.simulate(y, 8, 10, jax.random.key(0)),
        lambda y: ll.finite_samples(y, 8, 10, jax.random.key(0)),
        ll.limit,
        ll.kernel,
    ],
    ids=["simulate", "finite", "limit", "kernel"],
)
@pytest.mark.parametrize("behind", [True, False])
def test_an_instruction_without_a_rule(ask: Callable[[Any], Any], behind: bool) -> None:
    """It is refused by name by every engine: nothing falls through."""
    x = ll.relu(ll.Matrix() @ ll.initial())
    y = ll.Wide(Sort(x), x.shape, x.dim)
    with pytest.raises(TypeError, match="no rule for the instruction Sorted"):
        ask(ll.Matrix() @ y if behind else y)
