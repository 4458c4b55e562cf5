"""64-bit mode without ceremony: in interpreters where nobody has switched it on, the numbers are
those of 64 bits, and nothing that leaves limitlaw is an array of JAX.

conftest switches 64 bits on for the tests, which compute references by JAX themselves.
"""

import copy
import functools
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.float64 import NARROW, in_float64, methods_in_float64, to_numpy
from limitlaw.laws import Law

X = ll.initial((3,), cov=0.7 * np.eye(3) + 0.3)
MIXTURE = ll.GaussianMixture(np.zeros(3), np.array([0.5, 1.0, 2.0]))

SCRIPT = """
import json, math, threading
import numpy as np, jax, jax.numpy as jnp
import limitlaw as ll

numbers = {}

def found(name, *values):
    for x in jax.tree.leaves(values):
        assert isinstance(x, np.ndarray | float), (name, type(x))
        assert np.asarray(x).dtype == np.float64, name
    numbers[name] = values

x = ll.initial((3,), cov=0.7 * np.eye(3) + 0.3)
y = ll.attention(x, heads=2)
law = ll.limit(y[0])
found("limit", law.pdf(0.3), law.error.kurtosis(), *law.interval(0.9))
with jax.enable_x64(True):
    inside = ll.limit(y[0])
assert inside.pdf(0.3) == law.pdf(0.3) and str(inside) == str(law)
thread = threading.Thread(target=lambda: found("thread", law.cdf(0.3)))
thread.start()
thread.join()
kernel = ll.kernel(ll.map(lambda z: jnp.maximum(z - 0.3, 0), x))
found("kernel", kernel[0, 1], (kernel @ kernel)[0, 1], kernel.error.max())
numbers["finite"] = ll.finite_samples(x[0], width=8, samples=3, key=0).tolist()
draws = ll.simulate({"y": y, "more": (y[0],)}, width=8, samples=3, key=0)
found("simulate", *draws["y"][0], *draws["more"][0])
draws["y"][0] = 0.0  # it may be written to
net = lambda q: ll.transformer(x, 2, 2, 8, q_std=q, norm="pre", hidden=None)
trace = ll.trace(net(1.0), ["entropy"], samples=16)
found("trace", *trace["entropy"].value)
solved = ll.depth.solve(net, "entropy", 0.9 * math.log(3), over=(0.1, 10), samples=16)
found("solve", solved.value, solved.error)
found("ntk", ll.attention_ntk(np.eye(2), 1, samples=8).q.mean()[0, 0])
assert jnp.zeros(()).dtype == jnp.float32
print(json.dumps(numbers))
"""


def fresh(code: str) -> str:
    """What a script prints in an interpreter of its own, which warns of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fresh_interpreter() -> None:
    """This refused, or gave numbers of 32 bits."""
    numbers = json.loads(fresh(SCRIPT))
    law = ll.limit(ll.attention(X, heads=2)[0])
    assert numbers["limit"] == [law.pdf(0.3), law.error.kurtosis(), *law.interval(0.9)]
    assert numbers["thread"] == [law.cdf(0.3)]
    kernel = ll.kernel(ll.map(lambda z: jnp.maximum(z - 0.3, 0), X))
    assert numbers["kernel"] == [kernel[0, 1], (kernel @ kernel)[0, 1], kernel.error.max()]
    assert numbers["finite"] == ll.finite_samples(X[0], width=8, samples=3, key=0).tolist()


LAWS: dict[str, Callable[[], Law]] = {
    "Gaussian": lambda: ll.Gaussian(0.1, 2.0),
    "GaussianMixture": lambda: MIXTURE,
    "Pushforward": lambda: ll.limit(ll.relu(ll.initial(cov=2.0))),
    "Combination": lambda: ll.limit(X[0] * X[1]),
    "Empirical": lambda: ll.laws.Empirical(np.linspace(0, 1, 100)),
    "Tokens": lambda: ll.attention_law(np.eye(2), 2, samples=64),
}
SUMMARIES = ("mean", "variance", "std", "skewness", "kurtosis", "median", "atoms")


@pytest.mark.parametrize("name", LAWS)
def test_laws_in_32_bits(name: str) -> None:
    """Made there and asked there, made there and asked in 64 bits: the same, and of NumPy."""

    def asked(law: Law) -> list[Any]:
        summaries = [n for n in SUMMARIES if not (law.shape and n == "median")]
        found = [getattr(part, n)() for n in summaries for part in (law, law.error)]
        x = np.full(law.shape, 0.3)
        return [*found, law.cf(x), law.sample(0, 2), law.moment(2), law.marginal(...).mean()]

    with jax.enable_x64(False):
        law = LAWS[name]()
        narrow = jax.tree.leaves(asked(law))
        assert str(law) + repr(law) + law._repr_html_()
    assert all(isinstance(x, np.ndarray | float | complex) for x in narrow)
    for a, b in zip(narrow, jax.tree.leaves(asked(law)), strict=True):
        np.testing.assert_array_equal(a, b)


TORCH = """
import jax.numpy as jnp, torch
import limitlaw.torch as lt

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, dropout=0.0)
module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
tokens = torch.randn(1, 4, 16)
found = lt.audit(module, tokens, seeds=4, samples=64, limit=False)
assert "layers.1: all its weights equal those of layers.0" in found.findings[0]
assert str(found) and lt.check(module, tokens)
program = lt.program(module, tokens)
assert lt.replay(program).worst < 1e-10
assert jnp.zeros(()).dtype == jnp.float32
"""


def test_torch_in_a_fresh_interpreter() -> None:
    """Its reader need not know JAX: this stopped with a message about JAX."""
    fresh(TORCH.replace("import jax", "import warnings; warnings.resetwarnings(); import jax", 1))


# --- transformations -----------------------------------------------------------------------------

TRANSFORMED: dict[str, Callable[[], Any]] = {
    "jit": lambda: jax.jit(MIXTURE.pdf)(0.1),
    "constant in jit": lambda: jax.jit(lambda: MIXTURE.pdf(0.1))(),
    "grad": lambda: jax.grad(MIXTURE.pdf)(0.1),
    "vmap": lambda: jax.vmap(MIXTURE.pdf)(jnp.ones(2)),
    "program": lambda: jax.grad(lambda q: ll.limit(q * X[0]).variance())(0.5),
    "closure": lambda: jax.grad(lambda a: MIXTURE.expect(lambda v: a * v**2))(1.0),
    "law": lambda: jax.grad(lambda m: ll.Gaussian(m, 1.0).pdf(0.0))(0.3),
    "kernel": lambda: jax.jit(lambda c: ll.kernel(ll.initial(cov=c)))(1.0),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_in_32_bits_say_what_to_write(name: str) -> None:
    with jax.enable_x64(False), pytest.raises(RuntimeError) as error:
        TRANSFORMED[name]()
    assert str(error.value) == NARROW
    with jax.enable_x64(True):
        assert jnp.asarray(TRANSFORMED[name]()).dtype == jnp.float64


def test_transformations_see_arrays_of_jax() -> None:
    """As before: what a jitted function is given can be indexed by what is traced."""
    values = jax.jit(lambda i: MIXTURE.pdf(np.linspace(0, 1, 3))[i])(1)
    assert float(values) == MIXTURE.pdf(0.5)
    kernel = jax.jit(lambda c, i: ll.kernel(ll.relu(ll.initial((2,), cov=c)))[i, i])(2.0, 1)
    assert float(kernel) == pytest.approx(1.0, rel=1e-12)


def test_an_error_leaves_the_mode_as_it_was() -> None:
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match="q must lie"):
            MIXTURE.ppf(2.0)
        assert jnp.zeros(()).dtype == jnp.float32
        assert isinstance(MIXTURE.pdf(0.0), float)


def test_users_functions_run_in_64_bits() -> None:
    seen = []
    with jax.enable_x64(False):
        MIXTURE.expect(lambda y: (seen.append(y.dtype), y**2)[1])
        ll.limit(ll.map(lambda y: (seen.append(y.dtype), y**2)[1], X[0]))
    assert set(seen) == {np.dtype(np.float64)}


# --- objects -------------------------------------------------------------------------------------


def test_pickled_and_copied_laws_keep_their_digits() -> None:
    """JAX unpickles arrays in the mode of whoever reads them."""
    text = pickle.dumps(MIXTURE)
    with jax.enable_x64(False):
        laws: list[Law] = [pickle.loads(text), copy.copy(MIXTURE), copy.deepcopy(MIXTURE)]
        assert [law.pdf(0.1) for law in laws] == [MIXTURE.pdf(0.1)] * 3


def test_threads_have_modes_of_their_own() -> None:
    """One that computes does not switch the others."""
    entered, over, seen = threading.Event(), threading.Event(), []

    @in_float64
    def computing() -> None:
        entered.set()
        over.wait(10)

    thread = threading.Thread(target=computing)
    with jax.enable_x64(False):
        thread.start()
        entered.wait(10)
        seen.append((jnp.zeros(()).dtype, type(MIXTURE.pdf(0.0))))
        over.set()
        thread.join()
    assert seen == [(jnp.float32, np.float64)]


def test_what_is_converted() -> None:
    key = jax.random.key(0)
    parts = to_numpy((jnp.ones(2), [jnp.asarray(True), key], {"a": jnp.asarray(1j), "b": None}))
    assert isinstance(parts[0], np.ndarray)
    assert type(parts[1][0]) is np.bool_
    assert parts[1][1] is key
    assert parts[2] == {"a": 1j, "b": None}


def test_methods_of_a_class() -> None:
    """Methods, properties, class methods and cached properties; nothing private."""

    @methods_in_float64
    class Some:
        def method(self) -> Any:
            return jnp.ones(2)

        @property
        def shown(self) -> Any:
            return jnp.ones(2)

        @functools.cached_property
        def kept(self) -> Any:
            return jnp.ones(2)

        @classmethod
        def made(cls) -> Any:
            return jnp.ones(2)

        def _hidden(self) -> Any:
            return jnp.ones(2)

    some = Some()
    for array in (some.method(), some.shown, some.kept, Some.made()):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
    assert isinstance(some._hidden(), jax.Array)
