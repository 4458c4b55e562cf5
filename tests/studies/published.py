"""Tables of a world in which all that was published is true."""

import numpy as np

from limitlaw.apps.studies import (
    alekseev,
    cowsik,
    giorlandino,
    kedia,
    nait_saada,
    noci,
    participation,
    query_gradients,
    tails,
    unit_scaling,
)
from limitlaw.runs import Table, rows

ERROR = 1e-4


def true_tables() -> dict[str, Table]:
    """Of all studies."""
    return {
        **_giorlandino(),
        "participation": _participation(),
        **_cowsik(),
        "noci": _noci(),
        "nait_saada": _nait_saada(),
        "unit_scaling": _unit_scaling(),
        "tails": _tails(),
        "kedia": _kedia(),
        **_alekseev(),
        "query_gradients": _query_gradients(),
    }


def _giorlandino() -> dict[str, Table]:
    layers = np.arange(giorlandino.GIORLANDINO_DEPTH + 1)
    curve = np.interp(layers, giorlandino.LAYERS, giorlandino.THEORY_THEN)
    known = {
        "layer": giorlandino.LAYERS,
        "measured": giorlandino.MEASURED_THEN,
        "theory": giorlandino.THEORY_THEN,
    }
    table = rows(
        {"biased": 1, "layer": layers, "correlation": curve, "error": np.full(len(layers), ERROR)}
    )
    return {"giorlandino": table, "giorlandino_published": rows(known)}


def _participation() -> Table:
    betas = np.array([beta for beta, _ in participation.COMPARED])
    model = participation.energy_model(betas)
    gaps = {64: 0.1, participation.REM_TOKENS: 0.0}
    return rows(
        *(
            {"tokens": t, "beta": betas, "participation": model + gap, "error": ERROR}
            for t, gap in gaps.items()
        )
    )


def _cowsik() -> dict[str, Table]:
    cases = [(1.0, 2.0), (1.0, 3.333), (1.0, 5.0)]
    formula = [cowsik.exponent(*case) for case in cases]
    records = [
        {"alpha": a, "sigma": s, "formula": f, "measured": f, "error": ERROR}
        for (a, s), f in zip(cases, formula, strict=True)
    ]
    deep = {"layer": np.arange(1, 4), "growth": np.array([-0.1, -0.3, formula[0]]), "error": ERROR}
    edges = [{"alpha": a, "published": value, "edge": value} for a, value in cowsik.EDGES.items()]
    return {"cowsik": rows(*records), "cowsik_deep": rows(deep), "cowsik_edge": rows(*edges)}


def _noci() -> Table:
    layers = np.arange(noci.NOCI_DEPTH + 1)
    curve = noci.correlation((1 + noci.NOCI_ALPHA**2 / noci.NOCI_DEPTH) ** layers)
    return rows(
        *(
            {"scale": s, "layer": layers, "correlation": curve, "error": ERROR}
            for s in noci.SCORE_SCALES
        )
    )


def _nait_saada() -> Table:
    counts = np.array([64, 512])
    errors = {"excess_error": ERROR, "second_error": ERROR}
    return rows(
        {
            "tokens": counts,
            "excess": nait_saada.rank_excess(counts),
            "second": nait_saada.SV_EDGE,
            **errors,
        }
    )


def _unit_scaling() -> Table:
    std = np.linspace(1.06, 6.12, unit_scaling.UNIT_DEPTH)
    behind = {"correlation": np.linspace(0.1, 0.9, len(std)), "correlation_error": ERROR}
    return rows({"layer": np.arange(len(std)), "std": std, "error": ERROR, **behind})


def _tails() -> Table:
    layers = np.arange(tails.TAILS_DEPTH + 1)
    cases = [
        *((kind, tails.INFINITE) for kind in tails.NETWORKS),
        *((kind, tails.TAILS_WIDTH) for kind in tails.FINITE),
    ]
    curve = {"layer": layers, "kurtosis": 0.1 * layers, "error": ERROR}
    return rows(*({"network": kind, "width": width, **curve} for kind, width in cases))


def _kedia() -> Table:
    cases = [(std, r, 0.0) for std in kedia.SCORE_STDS for r in kedia.CORRELATIONS]
    return rows(
        *(
            {
                "std": std,
                "r_x": r_x,
                "r_g": r_g,
                "drawn": 1.43 if (std, r_x) == (0.6, 0.0) else 1.01,
                "drawn_error": ERROR,
                "limit": kedia.with_scores(np.array(std**2)) if r_x == 0 else 1.0,
                "limit_error": 10 * ERROR,
            }
            for std, r_x, r_g in cases
        )
    )


def _alekseev() -> dict[str, Table]:
    layers = np.arange(alekseev.VIT_DEPTH + 1)
    curves = alekseev.recursion(alekseev.VIT_DEPTH, alekseev.VIT_TOKENS, alekseev.VIT_START)
    errors = {f"{name}_error": ERROR for name in curves}
    cases = [
        {"factor": factor, "layer": layers, **curves, **errors}
        for factor in alekseev.SCORE_FACTORS
    ]
    return {"alekseev": rows(*cases), "alekseev_published": rows({"layer": layers, **curves})}


def _query_gradients() -> Table:
    """For β > √2 as with infinitely many tokens; below with fewer and fewer of the gradient."""
    betas = np.array(query_gradients.GRADIENT_BETAS)
    model = query_gradients.frozen(betas)
    cases = [(count, 0, gap) for count, gap in {32: 0.1, 512: 0.0}.items()]
    return rows(
        *(
            {
                "tokens": count,
                "block": block,
                "beta": betas,
                "gradient": np.where(model > 0, model, gap),
                "error": ERROR,
            }
            for count, block, gap in [*cases, (32, 1, 0.05)]
        )
    )
