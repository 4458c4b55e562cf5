"""`check` on programs whose verdicts theory §1 states."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import pytest

import limitlaw as ll
from limitlaw.core.findings import Verdict

LIMIT, A, B = "scores have a limit", "Assumption 3.1 (a)", "Assumption 3.1 (b)"
BOUNDED, LIPSCHITZ = "bounded inputs", "pseudo-Lipschitz"
DEPTH, BEHIND, NARROW = "no attention behind attention", "no MatMul behind", "no narrow heads"
HOLDS, NOT_NEEDED, UNKNOWN, BEYOND, REFUSED = Verdict


def tokens(phi: Callable[[ll.Wide], ll.Wide] = ll.tanh) -> ll.Wide:
    return phi(ll.matrices(4) @ ll.initial())


def attend(q: ll.Wide, k: ll.Wide, v: ll.Wide, scaling: str = "sqrt") -> ll.Wide:
    return ll.softmax(ll.dot(q, k, scaling)) @ v


def tied_queries_and_keys(scaling: str) -> ll.Wide:
    x, W = tokens(), ll.Matrix()
    return attend(W @ x, W @ x, ll.Matrix() @ x, scaling)


def keys_are_values() -> ll.Wide:
    x, K = tokens(), ll.Matrix()
    return attend(ll.Matrix() @ x, K @ x, ll.Matrix() @ (K @ x))


def queries_used_outside() -> ll.Wide:
    x, Q = tokens(), ll.Matrix()
    return ll.tanh(Q @ x) + attend(Q @ x, ll.Matrix() @ x, ll.Matrix() @ x)


def tied_layers() -> ll.Wide:
    Q, K = ll.Matrix(), ll.Matrix()

    def layer(x: ll.Wide) -> ll.Wide:
        return x + attend(Q @ x, K @ x, ll.Matrix() @ (ll.Matrix() @ x))

    return layer(layer(tokens()))


def matrix_met_its_own_output() -> ll.Scalars:
    """Both matrices made vectors that they meet again: neither is fresh."""
    x, Q, K = tokens(), ll.Matrix(), ll.Matrix()
    again = ll.tanh(Q @ x) + ll.tanh(K @ x)
    return ll.dot(Q @ again, K @ again)


def fused(q: int, k: int) -> ll.Wide:
    """One family of 3 × 2 matrices for queries, keys and values of two heads."""
    qkv = ll.Matrix(shape=(3, 2, 1)) @ tokens()
    return ll.normalised_sum(attend(qkv[q], qkv[k], ll.Matrix(shape=(2, 1)) @ qkv[2]), 0)


def rotated() -> ll.Wide:
    x = tokens()
    q, k = (ll.rotary(ll.Matrix(rows=8) @ x, range(4)) for _ in "qk")
    return attend(q, k, ll.Matrix() @ x)


CASES: dict[str, tuple[Callable[[], object], dict[str, Verdict]]] = {
    "the paper's layer": (lambda: ll.attention(tokens(), 2), {}),
    "the paper's layer, O behind the mixing": (
        lambda: ll.Matrix() @ attend(*(ll.Matrix() @ tokens() for _ in "qkv")),
        {},
    ),
    "relu": (lambda: ll.attention(tokens(ll.relu), 2), {BOUNDED: NOT_NEEDED}),
    "Gaussian tokens": (lambda: ll.attention(ll.initial((4,)), 2), {BOUNDED: NOT_NEEDED}),
    "a user's function": (
        lambda: ll.attention(tokens(lambda g: ll.map(jnp.tanh, g)), 2),
        {BOUNDED: UNKNOWN, LIPSCHITZ: UNKNOWN},
    ),
    "a user's function of scores": (
        lambda: ll.apply(jnp.exp, ll.average(ll.tanh(tokens()))),
        {LIPSCHITZ: UNKNOWN, "no norms": BEYOND},
    ),
    "sign": (lambda: ll.attention(tokens(ll.sign), 2), {LIPSCHITZ: BEYOND}),
    "W_Q = W_K": (lambda: tied_queries_and_keys("sqrt"), {LIMIT: REFUSED, B: BEYOND}),
    "W_Q = W_K under 1/n": (lambda: tied_queries_and_keys("linear"), {}),
    "1/n": (lambda: ll.attention(tokens(), 2, scaling="linear"), {}),
    "W_K = W_V": (keys_are_values, {A: BEYOND}),
    "W_Q outside": (queries_used_outside, {A: BEYOND}),
    "initial vectors": (lambda: ll.dot(ll.initial(), ll.initial()), {B: BEYOND}),
    "Nonlin outputs": (lambda: ll.dot(tokens(), tokens()), {LIMIT: REFUSED, B: BEYOND}),
    "one fresh matrix is enough": (
        lambda: ll.dot(ll.tanh(ll.Matrix() @ ll.initial()), ll.Matrix() @ tokens()),
        {B: BEYOND},
    ),
    "tied layers": (
        tied_layers,
        {LIMIT: BEYOND, BOUNDED: NOT_NEEDED, DEPTH: BEYOND, BEHIND: BEYOND},
    ),
    "matrices that met their own outputs": (
        matrix_met_its_own_output,
        {LIMIT: REFUSED, A: BEYOND},
    ),
    "fused": (lambda: fused(0, 1), {}),
    "fused, keys are values": (lambda: fused(0, 2), {A: BEYOND}),
    "fused, tied": (lambda: fused(1, 1), {LIMIT: REFUSED, B: BEYOND}),
    "two layers": (
        lambda: ll.attention(ll.tanh(ll.attention(tokens(), 2)), 2),
        {DEPTH: BEYOND, BEHIND: BEYOND},
    ),
    "MLP behind attention": (lambda: ll.mlp(ll.attention(tokens(), 2)), {BEHIND: BEYOND}),
    "narrow heads": (lambda: ll.attention(tokens(), 2, head_dim=8), {NARROW: BEYOND}),
    "LayerNorm": (lambda: ll.layernorm(tokens()), {"no norms": BEYOND}),
    "rotary": (rotated, {"no rotary": BEYOND, NARROW: BEYOND}),
    "infinitely many heads": (
        lambda: ll.attention(tokens(), math.inf),
        {"finitely many heads": BEYOND},
    ),
    "an MLP": (lambda: ll.mlp(tokens()), {}),
    "a readout of fixed dimension": (lambda: ll.mlp(ll.data(jnp.eye(3)), dim=10), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: str) -> None:
    """Exactly the rules listed have another verdict than "holds"."""
    build, expected = CASES[case]
    report = ll.check(build())
    found = {f.rule: report[f.rule].verdict for f in report.findings if f.verdict is not HOLDS}
    assert len(found) == len(expected), str(report)
    for rule, verdict in expected.items():
        assert report[rule].verdict is verdict, str(report)
    assert report.covered == all(verdict is NOT_NEEDED for verdict in expected.values())
    assert bool(report.refused) == (REFUSED in expected.values())


def test_labels_name_what_lies_beyond() -> None:
    """Results carry these labels; depth counts layers of random scores."""
    x = tokens()
    for _ in range(3):
        x = x + ll.attention(x, 2, head_dim=8)
    report = ll.check(x)
    assert "depth 3" in report.beyond
    assert "narrow heads of dimension 8" in report.beyond


def test_refusals_name_the_node_and_a_way_out() -> None:
    """A refusal says which value of the printed program, why, and what to do instead."""
    y = tied_queries_and_keys("sqrt")
    (finding,) = ll.check(y).refused
    assert finding.values[0].op.__class__.__name__ == "Dot"
    name, _, _ = finding.why.partition(":")
    assert f"{name} " in str(y)
    assert "scaling='linear'" in finding.why


def test_the_report_prints_a_row_for_each_rule() -> None:
    """A table: a row for each finding, below a heading and a rule,
    in lines that fit a terminal.
    """
    report = ll.check(tied_layers())
    lines = str(report).splitlines()
    rows = [line for line in lines[2:] if not line.startswith(" ")]
    assert all(row.startswith(f.rule) for f, row in zip(report.findings, rows, strict=True))
    assert max(map(len, lines)) <= 120


def test_reports_of_equal_findings_are_equal() -> None:
    y = ll.Matrix() @ ll.tanh(ll.Matrix() @ ll.initial((3,)))
    assert ll.check(y) == ll.check(y)
    assert hash(ll.check(y)) == hash(ll.check(y))
    assert ll.check(y) != ll.check(ll.attention(y, 1))


def test_a_repeated_head_family_of_many_members_is_quick() -> None:
    """256 heads with tied queries and keys: the refusal is found on families,
    not on 256 graph copies.
    """
    x, W = tokens(), ll.Matrix(shape=(256, 1))
    assert ll.check(ll.dot(W @ x, W @ x)).refused


def verdict(y: ll.Wide | ll.Scalars, rule: str) -> Verdict:
    return ll.check(y)[rule].verdict


def test_names_do_not_decide() -> None:
    """A user's function called softmax or tanh is a user's function,
    whoever else has that name in the program.
    """

    def softmax(p):
        return jnp.where(p > 0, 1.0, 0.0)

    def tanh(x):
        return jnp.where(x > 0, 1.0, 0.0)

    p = ll.dot(ll.Matrix() @ tokens(), ll.Matrix() @ tokens())
    assert verdict(ll.apply(softmax, p), LIPSCHITZ) == UNKNOWN
    assert verdict(ll.softmax(p), LIPSCHITZ) == HOLDS
    x = ll.Matrix() @ ll.initial()
    for y in (ll.tanh(x) + ll.map(tanh, x), ll.map(tanh, x) + ll.tanh(x)):
        assert verdict(y, LIPSCHITZ) != HOLDS


def test_structure_of_functions_of_numbers() -> None:
    """Said by who writes the instruction: affine and softmax are known to be so,
    nothing else is.
    """
    x = tokens()
    p, q = ll.dot(ll.Matrix() @ x, ll.Matrix() @ x), ll.dot(x, x, "linear")
    a = jnp.ones((4, 4))
    affine = (p + q, p - q, 1 - p, -p, 2 * p, p * a, p / 3.0, p @ a, a @ p, p.mean(0))
    other = (p * q, p / q, 1 / p, p**2, abs(p), p @ q, ll.relu(p), ll.apply(jnp.negative, p))
    assert {v.op.structure for v in affine} == {"affine"}
    assert {v.op.structure for v in other} == {None}
    assert {v.op.structure for v in (ll.softmax(p), ll.softmax(p, "causal"))} == {"softmax"}
    assert verdict(ll.apply(ll.phi.sign, p), LIPSCHITZ) == BEYOND
    for v in (*affine, p * q, abs(p), p @ q, ll.relu(p)):
        assert verdict(v, LIPSCHITZ) == HOLDS
