"""Whole networks under the dense engine: an attention layer against brute force,
edge cases, and memory.
"""

import functools
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import limitlaw as ll

KEY = jax.random.key(8)


# --- Against brute force -------------------------------------------------------------------------

STATISTICS = {
    "cos y": np.cos,
    "cos 3y": lambda y: np.cos(3 * y),
    "y² below 4": lambda y: np.minimum(y**2, 4.0),
    "|y| < 0.3": lambda y: np.abs(y) < 0.3,
    "|y| > 1.5": lambda y: np.abs(y) > 1.5,
    "sin y": np.sin,
}


def brute_force(width, samples, heads, head_dim=None, tokens=4, seed=0):
    """Coordinate 0 of every token of an attention layer,
    every weight drawn by NumPy, one network at a time.
    """
    rng = np.random.default_rng(seed)
    d = head_dim or width

    def matrix(rows, cols):
        return rng.standard_normal((rows, cols)) / np.sqrt(cols)

    result = np.empty((samples, tokens))
    for m in range(samples):
        h = rng.standard_normal(width)
        x = np.stack([np.maximum(matrix(width, width) @ h, 0) for _ in range(tokens)])
        y = 0
        for _ in range(heads):
            q, k, v = (x @ matrix(d, width).T for _ in range(3))
            e = np.exp(q @ k.T / np.sqrt(d))
            y = y + (e / e.sum(axis=1, keepdims=True)) @ v @ matrix(width, d).T / np.sqrt(heads)
        result[m] = y[:, 0]
    return result


@pytest.mark.parametrize(
    ("width", "heads", "head_dim", "samples"), [(64, 2, None, 3000), (16, 3, 2, 10_000)]
)
def test_attention_has_the_law_of_brute_force(width, heads, head_dim, samples):
    """Means of bounded functions of one coordinate per draw,
    within 5 standard errors; token by token and in pairs.
    """
    x = ll.relu(ll.matrices(4) @ ll.initial())
    y = ll.attention(x, heads, head_dim)
    ours = np.asarray(ll.simulate(y, width, samples, KEY))
    theirs = brute_force(width, samples, heads, head_dim)
    for name, statistic in STATISTICS.items():
        for token in range(4):
            compare(
                f"{name}, token {token}", statistic(ours[:, token]), statistic(theirs[:, token])
            )
    for i, j in ((0, 1), (1, 3), (2, 3)):
        compare(f"tokens {i}, {j}", *(np.tanh(y[:, i]) * np.tanh(y[:, j]) for y in (ours, theirs)))


def compare(name, ours, theirs):
    """The means of two samples, in standard errors of their difference."""
    error = np.sqrt(np.var(ours) / len(ours) + np.var(theirs) / len(theirs))
    difference = np.mean(ours) - np.mean(theirs)
    assert abs(difference) < 5 * error, (
        f"{name}: {np.mean(ours):.5f} against {np.mean(theirs):.5f} ± {error:.5f}"
    )


def test_the_variance_tends_to_its_limit():
    """Independent tokens, K = I: E y² → 0.39197 (theory §7);
    at width 64 the distance is below a standard error.
    """
    y = np.asarray(
        ll.simulate(ll.attention(ll.initial((4,)), heads=2), width=64, samples=4000, key=KEY)
    )[:, 0]
    error = np.std(y**2) / np.sqrt(len(y))
    assert abs(np.mean(y**2) - 0.391971443576) < 5 * error


# --- Edge cases ----------------------------------------------------------------------------------


def tokens(s):
    """s tokens that share an initial vector."""
    return ll.relu(ll.matrices(s) @ ll.initial())


ONE = np.eye(3, dtype=bool)
EDGE_CASES = {
    "more tokens than coordinates": (lambda: ll.attention(tokens(9), 2), 4),
    "width, tokens and heads one": (lambda: ll.attention(tokens(1), 1), 1),
    "width one, narrow heads": (lambda: ll.attention(tokens(3), 2, head_dim=5), 1),
    "odd dimensions": (lambda: ll.attention(ll.data(np.eye(3, 7)), 3, head_dim=1), 5),
    "repeated tokens": (lambda: ll.attention(tokens(2)[[0, 0, 1]], 1), 8),
    "a kernel of rank one": (lambda: ll.attention(ll.initial((3,), cov=np.ones((3, 3))), 2), 8),
    "zero queries": (lambda: ll.attention(tokens(3), 2, q_std=0.0), 8),
    "zero values": (lambda: ll.attention(tokens(3), 2, v_std=0.0), 8),
    "zero inputs": (lambda: ll.layernorm(ll.attention(0.0 * tokens(3), 2)), 8),
    "scores of size 1e4": (lambda: ll.attention(tokens(3), 2, q_std=1e2, k_std=1e2), 8),
    "one token seen, scores of size 1e8": (
        lambda: ll.attention(tokens(3), 2, mask=ONE, q_std=1e8),
        8,
    ),
    "norm of one coordinate": (lambda: ll.layernorm(tokens(3)), 1),
    "many axes, two layers": (
        lambda: ll.attention(ll.attention(ll.initial((2, 1, 3, 4)), 2), 1, mask="causal"),
        4,
    ),
}
ALWAYS_ZERO = ("zero values", "zero inputs", "norm of one coordinate")
FIRST_TWO_EQUAL = ("repeated tokens", "a kernel of rank one", "zero queries")


@pytest.fixture
def quick_compilation(monkeypatch):
    """The same programs, compiled without LLVM's optimisations: many programs that run once."""
    options = {"xla_backend_optimization_level": 0}
    monkeypatch.setattr(jax, "jit", functools.partial(jax.jit, compiler_options=options))


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("case", EDGE_CASES)
def test_edge_cases_just_work(case):
    program, width = EDGE_CASES[case]
    y = program()
    draws = np.asarray(ll.simulate(y, width, samples=20, key=KEY, coordinates=width))
    assert draws.shape == (20, *y.shape, width)
    assert np.isfinite(draws).all()
    assert not draws.any() if case in ALWAYS_ZERO else len(np.unique(draws)) > 5
    equal = np.isclose(
        draws[:, 0], draws[:, -1 if draws.shape[1] == 1 else 1], rtol=1e-6, atol=1e-6
    )
    assert equal.all() == (case in FIRST_TWO_EQUAL + ALWAYS_ZERO or len(y) == 1)


# --- Memory --------------------------------------------------------------------------------------

# VmHWM and not getrusage: the latter's peak starts at that of the parent process.
MEMORY = """
import limitlaw as ll

def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024

def heads(H):
    x = ll.initial((2,))
    return ll.normalised_sum(ll.Matrix(shape=(H, 1)) @ x, axis=0)

ll.simulate(heads(1), width=256, samples=1, key=0)
before = peak()
y = ll.simulate(heads(512), width=256, samples=1, key=0)
print(float(abs(y).max()), peak() - before)
"""


@pytest.mark.skipif(
    not pathlib.Path("/proc/self/status").exists(), reason="reads the peak from Linux's /proc"
)
def test_a_family_larger_than_the_cache_is_never_held():
    """512 matrices of 256 × 256 are 2²⁵ entries, 256 MiB;
    the peak grows by a few blocks of 2 MiB.
    """
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=120
    )
    largest, growth = map(float, done.stdout.split())
    assert 0 < largest < 10
    assert growth < 80
