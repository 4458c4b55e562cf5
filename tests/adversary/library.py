"""A case as limitlaw says it: the text of the program,
its figures and stated errors, eagerly and under jax.jit.

The text that is run is the text that a report prints.
"""

import ast
import functools
import math
import re
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from adversary.cases import Case, Numbers, Structure
from adversary.figures import Figure
from adversary.functions import FUNCTIONS, PSIS

REFUSED = "not known inside jax.jit"
NAMES = {"np": np, "jnp": jnp, "ll": ll, "math": math}


class Stated(NamedTuple):
    """A figure and its stated error, or what was raised instead (in words),
    and what kind the law calls itself.
    """

    value: float
    error: float
    raised: str = ""
    kind: str = ""


def raising(error: BaseException, kind: str = "") -> Stated:
    """No figure but an error. Its words only: the error itself would keep all arrays
    in reach alive.
    """
    return Stated(
        math.nan, math.nan, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", kind
    )


# --- the text of a program -----------------------------------------------------------------------


def program(shape: Structure) -> list[str]:
    """Lines that make `law` of K, q, k, v, o, and of scale where ψ needs it."""
    if shape.asked == "marginal":
        return [f"law = ll.attention_law(K, {_arguments(shape)}).marginal({shape.token})"]
    if shape.asked == "joint" and shape.front is None:
        return [f"law = ll.attention_law(K, {_arguments(shape)})"]
    lines = [f"x = ll.initial(({shape.tokens},), cov=K)", *_front(shape)]
    for layer in range(shape.depth):
        last = layer == shape.depth - 1
        lines += (
            _rotary_attention(shape)
            if shape.rotary
            else [f"y = ll.attention(x, {_arguments(shape)})"]
        )
        lines.append("x = x + y" if shape.residual and not (last and shape.front) else "x = y")
        lines += [f"x = ll.{shape.norm}(x)"] if shape.norm else []
    if shape.behind:
        lines.append(f"x = {_written(shape.behind)}")
    if shape.shift:
        lines.append(f"x = x + {shape.shift} * scale")
    return [*lines, _question(shape)]


def _front(shape: Structure) -> list[str]:
    if shape.front is None:
        return []
    phi = f"x = {_written(shape.front)}"
    return [phi, *["x = ll.dense(x, std=w, bias_std=b)", phi] * shape.dense]


def _written(phi: str) -> str:
    return FUNCTIONS[phi].source.replace("w)", "x)").replace("(w,", "(x,")


def _arguments(shape: Structure) -> str:
    mask = (
        f"np.array({np.array(shape.mask).tolist()})"
        if isinstance(shape.mask, tuple)
        else repr(shape.mask)
    )
    heads = "math.inf" if shape.heads == math.inf else shape.heads
    options = {
        "head_dim": (shape.head_dim, None),
        "scaling": (repr(shape.scaling), "'sqrt'"),
        "mask": (mask, "None"),
    }
    parts = [
        f"heads={heads}",
        *(f"{name}={value}" for name, (value, default) in options.items() if value != default),
    ]
    return ", ".join([*parts, "q_std=q, k_std=k, v_std=v, o_std=o"])


def _rotary_attention(shape: Structure) -> list[str]:
    """`attention` with rotary queries and keys, written out."""
    d, H = shape.head_dim or "ll.n", shape.heads
    turned = ", ".join(
        f"ll.rotary(ll.Matrix({std}, ({H}, 1), rows={d}) @ x[None], positions)" for std in "qk"
    )
    return [
        f"positions = np.arange({shape.tokens}.0)",
        f"A = ll.softmax(ll.dot({turned}))",
        (
            f"values = ll.Matrix(o, ({H}, 1), cols={d}) @ (ll.Matrix(v, ({H}, 1), rows={d}) @ "
            "x[None])"
        ),
        "y = ll.normalised_sum(A @ values, 0)",
    ]


def _question(shape: Structure) -> str:
    if shape.asked == "limit":
        return f"law = ll.limit(x[{shape.token}])"
    if shape.asked == "joint":
        return "law = ll.limit(x)"
    if shape.asked == "kernel":
        return "law = ll.kernel(x)"
    return f"law = ll.average_law(x[{shape.token}], lambda z: {_psi(str(shape.psi))})"


def _psi(name: str) -> str:
    return PSIS[name].source.replace("z", "(z / scale)")


# --- the text of a figure ------------------------------------------------------------------------


def figure_text(figure: Figure, shape: Structure, of: str = "") -> str:
    """The call that gives a figure; `of` is ".error" where its error is asked for."""
    method, c = figure
    if method == "entry":
        return f"law[{shape.entry}]"
    of = f"law.marginal({shape.entry}){of}" if shape.asked == "kernel" else f"law{of}"
    unit = "unit" if shape.asked in ("kernel", "average") else "scale"
    if method in ("pdf", "logpdf", "cdf", "sf"):
        return f"{of}.{method}({_times(c, unit)})"
    if method == "cf":
        return f"{of}.cf({_over(c, unit)})"
    if method == "ppf" or method == "moment":
        return f"{of}.{method}({c})"
    if method == "expect":
        return f"{of}.expect(lambda z: {PSIS[c].source.replace('z', f'(z / {unit})')})"
    if method == "covariance":
        return f"{of}.covariance()[{c[0]}, {c[1]}]"
    if method == "kurtosis" and shape.asked == "joint":
        return f"{of}.kurtosis()[{c}]"
    if method == "products":
        return f"{of}.expect(lambda z: (z[..., {c[0]}] * z[..., {c[1]}]) ** 2)"
    if method == "atom":
        return f"{of}.atoms()"
    return f"{of}.{method}()"


def _times(c: Any, unit: str) -> str:
    return f"np.array({list(c)}) * {unit}" if isinstance(c, tuple) else f"{c} * {unit}"


def _over(c: Any, unit: str) -> str:
    return f"np.array({list(c)}) / {unit}" if isinstance(c, tuple) else f"{c} / {unit}"


# --- running it ----------------------------------------------------------------------------------


def bindings(numbers: Numbers, scale: float, unit: float) -> dict[str, Any]:
    """The names that the text refers to."""
    return {
        "K": numbers.kernel,
        **numbers.stds,
        "w": numbers.weight,
        "b": numbers.bias,
        "scale": scale,
        "unit": unit,
    }


def made(shape: Structure, names: dict[str, Any]) -> dict[str, Any]:
    """The names after the program has run."""
    space = NAMES | names | {"_shared": _shared}
    space["_kept"] = functools.cache(lambda source: eval(source, space))
    with warnings.catch_warnings():
        # a doubt in words; the stated error has to hold all the same
        warnings.simplefilter("ignore")
        exec(_code("\n".join(program(shape)), "exec"), space)
    return space


@functools.cache
def _code(text: str, mode: str) -> Any:
    """The code, every function in it made once: to the library another function is
    another program to compile.
    """
    return compile(
        ast.fix_missing_locations(_FunctionsOnce().visit(ast.parse(text, mode=mode))),
        "<case>",
        mode,
    )


class _FunctionsOnce(ast.NodeTransformer):
    """Looks functions up by their text: once for all cases,
    or for one where they depend on a number of it.
    """

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        names = {each.id for each in ast.walk(node.body) if isinstance(each, ast.Name)}
        known = names <= {*NAMES, *(argument.arg for argument in node.args.args)}
        return ast.Call(
            ast.Name("_shared" if known else "_kept", ast.Load()),
            [ast.Constant(ast.unparse(node))],
            [],
        )


@functools.cache
def _shared(source: str) -> Any:
    return eval(source, dict(NAMES))


def figure_of(figure: Figure, shape: Structure, space: dict[str, Any]) -> tuple[Any, Any]:
    """A figure and its stated error: real numbers, traced ones under jit.
    A kernel in closed form states 0.
    """
    if shape.asked == "kernel" and isinstance(
        space["law"], jax.Array | np.ndarray | ll.KernelMatrix
    ):
        error = (
            space["law"].error[shape.entry] if isinstance(space["law"], ll.KernelMatrix) else 0.0
        )
        value, moved = (
            _of_constant(figure, space["law"][shape.entry] + e, space["unit"])
            for e in (0.0, error)
        )
        return value, jnp.abs(moved - value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, error = (
            eval(_code(figure_text(figure, shape, of), "eval"), space) for of in ("", ".error")
        )
    if figure.method == "atom":
        at = jnp.abs(value.points - figure.argument) <= 1e-9 * (1 + abs(figure.argument))
        return jnp.where(at, value.masses, 0.0).sum(), jnp.where(at, error, 0.0).sum()
    return jnp.real(value), error


def _of_constant(figure: Figure, value: Any, unit: Any) -> Any:
    """A figure of a kernel's entry that is a number."""
    method, c = figure
    zeros = {"variance": 0.0 * value}
    if method == "cdf":
        zeros["cdf"] = jnp.where(value <= c * unit, 1.0, 0.0)
    powers = {"moment": c}
    return zeros.get(
        method, jnp.cos(value / unit) if method == "expect" else value ** powers.get(method, 1)
    )


def eager(case: Case, scale: float, unit: float) -> list[Stated]:
    """Every figure of a case, eagerly; what it raises is an answer, too."""
    shape = case.structure
    try:
        space = made(shape, bindings(case.numbers, scale, unit))
    except Exception as raised:
        return [raising(raised)] * len(shape.figures)
    return [_stated(figure, shape, space) for figure in shape.figures]


def _stated(figure: Figure, shape: Structure, space: dict[str, Any]) -> Stated:
    kind = getattr(space["law"], "kind", "")
    try:
        value, error = figure_of(figure, shape, space)
        return Stated(float(value), float(error), kind=kind)
    except Exception as raised:
        return raising(raised, kind)


@functools.cache
def compiled(shape: Structure, figures: tuple[Figure, ...]) -> Any:
    """Law and figures inside jax.jit, as a function of the numbers."""

    def run(names: dict[str, Any]) -> Any:
        space = made(shape, names)
        return [figure_of(figure, shape, space) for figure in figures]

    return jax.jit(run)


def jitted(case: Case, scale: float, unit: float, figures: tuple[Figure, ...]) -> list[Stated]:
    """Some figures of a case under jax.jit, in one program but for those that are
    refused there.
    """
    names = {name: jnp.asarray(x) for name, x in bindings(case.numbers, scale, unit).items()}
    refusals = _refusals(case.structure)
    together = tuple(figure for figure in figures if figure not in refusals)
    try:
        numbers = compiled(case.structure, together)(names) if together else []
    except Exception as raised:
        if _refuses(case.structure, together, names):
            return jitted(case, scale, unit, figures)
        if len(together) > 1:  # which one raises?
            return [
                stated for figure in figures for stated in jitted(case, scale, unit, (figure,))
            ]
        return [refusals.get(figure, raising(raised)) for figure in figures]
    known = {
        figure: Stated(float(x), float(e))
        for figure, (x, e) in zip(together, numbers, strict=True)
    }
    return [known.get(figure) or refusals[figure] for figure in figures]


def _refuses(shape: Structure, figures: tuple[Figure, ...], names: dict[str, Any]) -> bool:
    """Which figures cannot be had inside jax.jit is remembered;
    they say so while they are traced, uncompiled.
    """
    found = False
    for figure in figures:
        try:
            jax.eval_shape(compiled(shape, (figure,)), names)
        except Exception as raised:
            if REFUSED in str(raised):
                _refusals(shape)[figure] = raising(raised)
                found = True
    return found


@functools.cache
def _refusals(shape: Structure) -> dict[Figure, Stated]:
    """Figures of a structure that say inside jax.jit that they cannot be had there."""
    return {}


def reproduction(case: Case, figure: Figure, scale: float, unit: float, jit: bool) -> str:
    """Code that shows a figure of a case."""
    names = bindings(case.numbers, scale, unit)
    text = [*program(case.structure), f"figure = {figure_text(figure, case.structure)}"]
    used = {n: x for n, x in names.items() if any(_mentions(line, n) for line in text)}
    lines = [f"{name} = {_literal(x)}" for name, x in used.items()]
    return "\n".join([*lines, *text, *(["# under jax.jit, of all these numbers"] if jit else [])])


def _mentions(line: str, name: str) -> bool:
    return re.search(rf"\b{name}\b(?!=)", line) is not None


def _literal(x: Any) -> str:
    return f"np.array({np.asarray(x).tolist()})" if np.ndim(x) else repr(float(x))
