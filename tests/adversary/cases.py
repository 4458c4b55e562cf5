"""Random cases: a structure (what is asked of which program)
and numbers (kernel and standard deviations).

Cases of one structure differ in numbers only, so that one compiled program serves them all.
Nothing here knows limitlaw: `library` writes a case with it, `reference` answers it without.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from adversary.figures import Figure
from adversary.functions import FUNCTIONS, PSIS

Array = Any
MOST_SCORES = 1e10  # standard deviation of scores
SMALLEST = 1e-9  # largest variance of a kernel that is not 0
WIDE_ROW = 64  # heads that are drawn one by one


@dataclasses.dataclass(frozen=True)
class Structure:
    """Tokens x = φ(h), h ~ N(0, K), behind `dense` more layers W·+b and φ;
    `depth` attention layers; φ behind them.

    `asked`: "marginal" of `attention_law`, "limit" of one token, "joint" of all, "kernel",
    "average" (of ψ). `per_head`: the letters of q, k, v, o whose standard deviation differs from
    head to head. A `residual` joins every layer, but the last one where tokens are not Gaussian.
    """

    asked: str
    tokens: int
    figures: tuple[Figure, ...]
    token: int = 0
    heads: int | float = 1
    head_dim: int | None = None
    scaling: str = "sqrt"
    mask: Any = None  # None, "causal", or rows of booleans
    per_head: str = ""
    rotary: bool = False
    front: str | None = None
    dense: int = 0
    depth: int = 1
    residual: bool = False
    norm: str | None = None
    behind: str | None = None
    psi: str | None = None
    entry: tuple[int, int] = (0, 0)  # of a kernel
    # a constant that is added to the output, in units of its standard deviation
    shift: float = 0.0

    @property
    def seen(self) -> Array:
        """The mask as booleans (s, s)."""
        if self.mask is None:
            return np.ones((self.tokens, self.tokens), bool)
        return (
            np.tri(self.tokens, dtype=bool) if self.mask == "causal" else np.array(self.mask, bool)
        )


@dataclasses.dataclass(frozen=True)
class Numbers:
    """K, and σ_Q, σ_K, σ_V, σ_O: numbers, or (H, 1)
    where heads differ; σ_w and σ_b of dense layers.
    """

    kernel: Array
    stds: dict[str, Any]
    weight: float = 1.0
    bias: float = 0.0


@dataclasses.dataclass(frozen=True)
class Case:
    """A structure with numbers, and the seed of its reference."""

    structure: Structure
    numbers: Numbers
    seed: int


# --- structures ----------------------------------------------------------------------------------


def structure(seed: int) -> Structure:
    """A random structure."""
    rng = np.random.default_rng([seed, 1])
    kind = _pick(
        rng,
        {
            "layer": 8,
            "image": 3,
            "function": 3,
            "deep": 2,
            "joint": 2,
            "kernel": 4,
            "average": 2,
            "rotary": 1,
        }
        | {"shifted": 1},
    )
    return {
        "layer": _layer,
        "image": _behind,
        "function": _function,
        "deep": _deep,
        "joint": _joint,
        "kernel": _kernel,
        "average": _average,
        "rotary": _rotary,
        "shifted": _shifted,
    }[kind](rng)


def _pick(rng: np.random.Generator, weights: dict[Any, float]) -> Any:
    options, p = list(weights), np.array(list(weights.values()), float)
    return options[rng.choice(len(options), p=p / p.sum())]


def _attention(rng: np.random.Generator, few: bool = False) -> dict[str, Any]:
    """Arguments of one attention layer; `few`: only what can be drawn for all rows."""
    tokens = _pick(rng, {1: 1, 2: 5, 3: 3, 4: 3, 5: 0.5, 6: 0.5})
    heads = _pick(
        rng,
        {1: 4, 2: 3, 4: 1, 8: 1} | ({} if few else {3: 1, 32: 1, 1000: 1, 10**6: 2, math.inf: 2}),
    )
    mask = _pick(rng, {None: 4, "causal": 1, "random": 1})
    if mask == "random":
        seen = rng.random((tokens, tokens)) < 0.6
        np.fill_diagonal(seen, True)
        mask = tuple(map(tuple, seen.tolist()))
    return {
        "tokens": tokens,
        "token": int(rng.integers(tokens)),
        "heads": heads,
        "head_dim": None
        if heads == math.inf
        else _pick(rng, {None: 6, 1: 1, 2: 1, 8: 1} | ({} if few else {64: 1})),
        "scaling": _pick(rng, {"sqrt": 9, "linear": 1}),
        "mask": mask,
        "per_head": "".join(letter for letter in "qkvo" if rng.random() < 0.3)
        if 1 < heads <= 4 and rng.random() < 0.3
        else "",
        "front": _pick(rng, {None: 1, _name(rng): 1}),
    }


def _name(rng: np.random.Generator) -> str:
    return str(rng.choice(sorted(FUNCTIONS)))


def _layer(rng: np.random.Generator) -> Structure:
    shape = _attention(rng)
    asked = "marginal" if shape["front"] is None else "limit"
    return Structure(asked, figures=_figures(rng), **shape)


def _behind(rng: np.random.Generator) -> Structure:
    shape = _attention(rng)
    shape |= {"heads": _pick(rng, {1: 2, 2: 2, 3: 1, 8: 1}), "per_head": "", "front": None}
    phi = _name(rng)
    return Structure("limit", figures=_figures(rng, phi), behind=phi, **shape)


def _function(rng: np.random.Generator) -> Structure:
    """φ of Gaussian vectors, and nothing else."""
    phi, tokens = _name(rng), int(rng.integers(1, 3))
    return Structure("limit", tokens, _figures(rng, phi), depth=0, behind=phi)


def _deep(rng: np.random.Generator) -> Structure:
    shape = _attention(rng, few=True)
    shape["tokens"] = tokens = int(rng.integers(1, 5))
    shape |= {
        "token": int(rng.integers(tokens)),
        "mask": _pick(rng, {None: 1, "causal": 1}),
        "per_head": "",
    }
    depth = _pick(rng, {1: 1, 2: 3})
    residual = bool(rng.random() < 0.6)
    norm = _pick(rng, {None: 1, "layernorm": 1, "rmsnorm": 1})
    return Structure(
        "limit", figures=_figures(rng), depth=depth, residual=residual, norm=norm, **shape
    )


def _joint(rng: np.random.Generator) -> Structure:
    shape = _attention(rng, few=True)
    shape["tokens"] = tokens = int(rng.integers(2, 4))
    shape |= {"token": 0, "mask": _pick(rng, {None: 1, "causal": 1})}
    direction = tuple(np.round(rng.normal(size=tokens), 2).tolist())
    figures = [Figure("covariance", (0, 1)), Figure("covariance", (1, 1)), Figure("kurtosis", 1)]
    figures += [Figure("cf", direction), Figure("products", (0, 1))]
    if shape["heads"] > 1 and shape["head_dim"] is None:
        figures.append(Figure("logpdf", direction))
    return Structure("joint", figures=tuple(figures), **shape)


def _kernel(rng: np.random.Generator) -> Structure:
    if rng.random() < 0.5:  # a deterministic one
        front, tokens = _name(rng), int(rng.integers(1, 4))
        entry = tuple(int(i) for i in rng.integers(tokens, size=2))
        return Structure(
            "kernel",
            tokens,
            (Figure("entry"),),
            front=front,
            depth=0,
            dense=int(rng.integers(3)),
            entry=entry,
        )
    shape = _attention(rng, few=True)
    if rng.random() < 0.4:
        shape |= {"tokens": 2, "mask": None, "heads": math.inf, "per_head": "", "head_dim": None}
    entry = tuple(int(i) for i in rng.integers(shape["tokens"], size=2))
    figures = (Figure("mean"),) if shape["heads"] == math.inf else _draw_figures(rng)
    return Structure("kernel", figures=figures, entry=entry, **(shape | {"token": 0}))


def _average(rng: np.random.Generator) -> Structure:
    shape = _attention(rng, few=True)
    return Structure(
        "average", figures=_draw_figures(rng), psi=str(rng.choice(sorted(PSIS))), **shape
    )


def _rotary(rng: np.random.Generator) -> Structure:
    shape = _attention(rng)
    shape |= {
        "tokens": int(rng.integers(2, 5)),
        "token": 1,
        "head_dim": _pick(rng, {None: 2, 2: 1, 8: 1}),
    }
    shape |= {
        "mask": None,
        "per_head": "",
        "scaling": "sqrt",
        "heads": _pick(rng, {1: 2, 2: 2, 8: 1}),
    }
    return Structure("limit", figures=_figures(rng), rotary=True, **shape)


def _shifted(rng: np.random.Generator) -> Structure:
    """Attention, and a constant added to it."""
    figures = (*_figures(rng), Figure("mean"))
    shift = float(rng.choice([-1.0, 1.0])) * _point(rng, 0.1, 3)
    centred = tuple(figure for figure in figures if figure.method != "expect")
    return Structure("limit", figures=centred, shift=shift, **_attention(rng))


def _figures(rng: np.random.Generator, phi: str | None = None) -> tuple[Figure, ...]:
    """The variance, and some of the other methods of a law;
    points are in units of its standard deviation.
    """
    psi = str(rng.choice(sorted(PSIS)))
    options = [
        Figure("kurtosis"),
        Figure("moment", int(rng.choice([4, 6]))),
        Figure("pdf", _point(rng, 0.05, 3.5)),
        Figure("logpdf", _point(rng, 0.3, 6)),
        Figure("cdf", _point(rng, 0, 4) if phi else float(rng.choice([0.0, _point(rng, 0, 4)]))),
        Figure("cdf", -_point(rng, 0, 4)),
        Figure("sf", _point(rng, 0, 6)),
        Figure("ppf", float(np.round(rng.choice([0.5, 0.9, 0.999, rng.random()]), 3))),
        Figure("cf", _point(rng, 0.1, 4)),
        Figure("expect", psi),
        Figure("entropy") if phi is None else Figure("mean"),
    ]
    if phi is not None:
        level = FUNCTIONS[phi](np.float64(rng.choice([-9.0, 0.4, 9.0])))
        options.append(Figure("atom", float(level)))
    # the branches of a user's function are unknown
    if phi is not None and FUNCTIONS[phi].source.startswith("ll.map"):
        options = [
            f for f in options if f.method in ("kurtosis", "moment", "cf", "expect", "mean")
        ]
    chosen = rng.choice(len(options), size=4, replace=False)
    return (Figure("variance"), *(options[i] for i in sorted(chosen)))


def _draw_figures(rng: np.random.Generator) -> tuple[Figure, ...]:
    options = [
        Figure("variance"),
        Figure("moment", 2),
        Figure("cdf", _point(rng, 0.4, 1.6)),
        Figure("ppf", float(np.round(rng.uniform(0.1, 0.9), 3))),
        Figure("expect", "cos"),
    ]
    return (
        Figure("mean"),
        *(options[i] for i in sorted(rng.choice(len(options), size=2, replace=False))),
    )


def _point(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.round(rng.uniform(low, high), 2))


# --- numbers -------------------------------------------------------------------------------------


def numbers(shape: Structure, seed: int) -> Numbers:
    """Random numbers for a structure: kernels of all scales and ranks,
    and standard deviations of many scales.
    """
    rng = np.random.default_rng([seed, 2])
    K = kernel(rng, shape.tokens)
    mild = shape.norm is None and shape.depth < 2
    stds = {letter: 10 ** rng.uniform(-1, 1) if rng.random() < 0.6 else 1.0 for letter in "qkvo"}
    if rng.random() < 0.15 and mild:
        stds["q"] *= 10 ** rng.uniform(-3, 4)
    if shape.front is None and shape.depth:
        largest = stds["q"] * stds["k"] * float(np.diag(K).max())
        K = K * min(1.0, MOST_SCORES / largest) if largest > 0 else K
    if shape.behind == "sin" or shape.front == "sin":
        K = K * min(1.0, 1e3 / max(float(np.diag(K).max()), 1e-300))
    for letter in shape.per_head:
        stds[letter] = stds[letter] * 10 ** rng.uniform(-0.5, 0.5, size=(int(shape.heads), 1))
    return Numbers(K, stds, float(10 ** rng.uniform(-0.5, 0.5)), float(rng.choice([0.0, 0.5])))


def kernel(rng: np.random.Generator, s: int) -> Array:
    """Covariances of s tokens: any rank, correlations up to ±1,
    zero rows, repeated tokens, scales 1e-7 … 1e7, so that variances of outputs stay in the
    domain of accuracy; the largest variance is SMALLEST or more, or 0.
    """
    kind = _pick(
        rng, {"random": 4, "equal": 2, "repeated": 1, "zero": 1, "decades": 1, "identity": 1}
    )
    if kind == "equal" and s > 1:
        rho = float(rng.choice([0.5, 0.9, 0.999999, 1.0, -1 / (s - 1), -0.5 / (s - 1)]))
        K = (1 - rho) * np.eye(s) + rho
    elif kind == "identity":
        K = np.eye(s)
    else:
        B = rng.normal(size=(s, int(rng.integers(1, s + 1)) if rng.random() < 0.4 else s))
        if kind == "repeated" and s > 1:
            B[-1] = B[0]
        if kind == "zero":
            B[rng.integers(s)] *= rng.choice([0.0, 1e-7])
        if kind == "decades":
            B *= 10 ** rng.uniform(-5, 0, size=(s, 1))
        K = B @ B.T
    scale = 10 ** (rng.uniform(-7, 5.5) if rng.random() < 0.3 else rng.uniform(-1.5, 2))
    top = scale * np.diag(K).max()
    return scale * max(1.0, SMALLEST / top if top else 1.0) * (K + K.T) / 2


def case(shape: Structure, seed: int) -> Case:
    """The case of a structure with the numbers of a seed."""
    return Case(shape, numbers(shape, seed), seed)
