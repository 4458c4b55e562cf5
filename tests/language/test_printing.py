"""Programs as text and as diagrams: complete, consistent with the graph, and readable."""

import math
import re
from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.language import ops
from limitlaw.language.ops import matrices_of
from limitlaw.language.tree import ancestors

NAME = re.compile(r"[A-Za-z][₀-₉]+")
KINDS = {
    ops.MatMul: "MatMul",
    ops.Map: "Nonlin",
    ops.Dot: "dot product",
    ops.Initial: "initial",
    ops.Data: "data",
}


def _tokens():
    return ll.relu(ll.matrices(4) @ ll.initial())


def _shared():
    W, h = ll.Matrix(std=0.5), ll.initial(2, mean=np.arange(2.0), cov=3.0)
    return W @ ll.tanh(W @ h) + h - 1.5


PROGRAMS = {
    "initial": ll.initial(),
    "shared matrix": _shared(),
    "attention": ll.attention(_tokens(), heads=2, mask="causal"),
    "infinite heads": ll.attention(_tokens(), heads=math.inf),
    "narrow heads": ll.attention(_tokens(), heads=3, head_dim=64, scaling="linear"),
    "data": ll.attention(ll.data(np.ones((4, 8))), heads=2),
    "norm": ll.layernorm(ll.Matrix(rows=4 * ll.n) @ _tokens()),
    "rotary": ll.dot(ll.rotary(_tokens(), np.arange(4)), ll.initial(dim=ll.n)),
    "lstm": ll.lstm(_tokens()),
    "lambdas": ll.apply(lambda a: a, ll.average(ll.map(lambda a, b: a * b, _tokens(), 2.0))),
    "batch": ll.stack([_tokens()[::2], _tokens()[jnp.array([0, 1])]], axis=1)
    .reshape(-1)
    .transpose()
    .mean(),
}
programs = pytest.mark.parametrize("y", PROGRAMS.values(), ids=PROGRAMS.keys())


def rows(y):
    """The lines of str(y) but the last, cut into name, kind, formula, shape and space."""
    *lines, last = str(y).splitlines()
    assert last.startswith("output ")
    cells = [re.split(r"\s{2,}", line) for line in lines]
    assert {len(row) for row in cells} == {5}
    return cells


def shape_text(shape):
    """A batch shape as Python writes it, with ∞ for math.inf."""
    return str(shape).replace("inf", "∞")


@programs
def test_every_instruction_has_one_line(y):
    """Matrices, MatMul, Nonlin, dot products and leaves appear once each,
    and nothing else is called so.
    """
    everything = ancestors([y])
    kinds = Counter(kind for _, kind, *_ in rows(y))
    assert kinds["Matrix"] == len(matrices_of(everything))
    for op, kind in KINDS.items():
        assert kinds[kind] == sum(type(v.op) is op for v in everything), kind


@programs
def test_names_are_defined_once_and_before_use(y):
    """A formula reads only names of lines above; the output is the last value."""
    names = [row[0] for row in rows(y)]
    assert len(set(names)) == len(names)
    for i, (_, _, formula, *_) in enumerate(rows(y)):
        assert set(NAME.findall(formula)) <= set(names[:i])
    assert str(y).splitlines()[-1] == f"output {names[-1]}"


@programs
def test_every_name_is_used(y):
    """Nothing is listed that the output does not read."""
    used = {name for _, _, formula, *_ in rows(y) for name in NAME.findall(formula)}
    assert {row[0] for row in rows(y)} - used == {str(y).split()[-1]}


@programs
def test_shapes_and_spaces(y):
    """The lines of vectors and numbers carry their batch shape and space,
    those of matrices rows × cols.
    """
    everything = ancestors([y])
    matrices = Counter(
        (shape_text(m.shape), f"{m.rows} × {m.cols}") for m in matrices_of(everything)
    )
    listed = [v for v in everything if not isinstance(v.op, ops.Constant | ops.Ones)]
    values = Counter(
        (shape_text(v.shape), f"in R^{v.dim}" if hasattr(v, "dim") else "numbers") for v in listed
    )
    assert Counter((row[3], row[4]) for row in rows(y)) == matrices + values


@programs
def test_readable(y):
    """Lines fit a page; no array, address, tracer or floating infinity is written out."""
    for line in str(y).splitlines():
        assert len(line) <= 120
        assert not re.search(r"0x|\binf|Tracer|object at|\.\d{7}|<lambda>", line), line


def test_the_papers_notation():
    """The attention program of Example 3.1, line by line where it matters."""
    written = str(PROGRAMS["attention"])
    for formula in (
        r"N\(0, 1\)",
        r"relu\(g₂\)",
        r"n\^\{-1/2\} g\S+ᵀ g\S+",
        r"softmax\(p",
        r"2\^\{-1/2\} Σ y",
    ):
        assert re.search(formula, written), formula
    assert re.search(r"64\)?\^\{-1\} g\S+ᵀ g\S+", str(PROGRAMS["narrow heads"]))
    assert "∞^{-1/2} Σ" in str(PROGRAMS["infinite heads"])


def test_constants_are_written_where_they_are_used():
    """Numbers as they are, c·I for multiples of the identity, a shape for other arrays."""
    h = ll.initial(2, mean=np.arange(2.0), cov=3.0)
    assert "N(array(2,), 3 I)" in str(h)
    assert "N(0, I)" in str(ll.initial(2))
    assert "2.5 * h" in str(2.5 * h)
    assert "array(2,) * h" in str(np.array([1.0, 2.0]) * h)
    assert "N(0, 0.5²/n)" in str(ll.Matrix(std=0.5) @ h)
    assert re.search(
        r"h₁\[…, None, 1:, ::2, 0\]", str(ll.initial((3, 3, 3))[..., None, 1:, ::2, 0])
    )


def test_a_large_mask_is_not_dumped():
    """A mask of 100 × 100 entries takes one short line."""
    scores = ll.dot(ll.initial(100), ll.initial(100))
    text = str(ll.softmax(scores, mask=np.tri(100, dtype=bool)))
    assert max(map(len, text.splitlines())) < 120
    assert text.count("\n") == 4


def test_printing_is_a_function_of_the_program():
    """Printing twice gives the same; building the same program twice too."""
    y = PROGRAMS["attention"]
    assert str(y) == str(y) == str(ll.attention(_tokens(), heads=2, mask="causal"))


@programs
def test_mermaid_nodes_and_edges(y):
    """One node a listed value, with its name; every edge joins declared nodes;
    edges are those of the graph.
    """
    first, *lines = ll.mermaid(y).splitlines()
    assert first.startswith("flowchart")
    nodes, edges = {}, []
    for line in lines:
        if "-->" in line:
            edges.append(tuple(end.strip() for end in line.split("-->")))
        else:
            node, name = re.match(r"\s*(\w+)\W+?\"(\w[₀-₉]+): ", line).groups()
            assert node not in nodes
            nodes[node] = name
    assert {end for edge in edges for end in edge} <= nodes.keys()
    read = {
        (name, row[0])
        for row in rows(y)
        if row[1] != "Matrix"
        for name in NAME.findall(row[2])
        if name[0] != "W"
    }
    assert {(nodes[source], nodes[target]) for source, target in edges} == read
    assert sorted(nodes.values()) == sorted(row[0] for row in rows(y) if row[1] != "Matrix")
    assert len(edges) == len(set(edges))


@programs
def test_mermaid_labels_are_safe(y):
    """Labels hold no quotes and no HTML but line breaks, so that every viewer draws them."""
    for line in ll.mermaid(y).splitlines()[1:]:
        if "-->" not in line:
            label = re.search(r'"(.*)"', line).group(1)
            assert '"' not in label
            assert "<" not in label.replace("<br/>", "")


def test_several_outputs():
    """Several outputs share one diagram."""
    h = ll.initial()
    a, b = ll.relu(h), ll.tanh(h)
    assert ll.mermaid(a, b).count("initial") == 1
    assert ll.mermaid(a, b).count("-->") == 2


@programs
def test_repr_is_short(y):
    """repr says kind, shape and space, whatever the program behind."""
    assert len(repr(y)) < 80
    assert repr(y).startswith(type(y).__name__)
    assert str(y.shape) in repr(y)
    assert "\n" not in repr(y)


def test_repr_of_matrices():
    """repr of a Matrix says all its arguments."""
    assert (
        repr(ll.Matrix(0.5, (2, 1), rows=8, cols=4 * ll.n))
        == "Matrix(std=0.5, shape=(2, 1), rows=8, cols=4n)"
    )
    assert len(repr(ll.Matrix(np.ones((100, 1)), (100, 1)))) < 80
