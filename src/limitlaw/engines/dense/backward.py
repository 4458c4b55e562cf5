"""Backward vectors of a network by automatic differentiation of the dense engine, which draws
every matrix.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from limitlaw.core.analysis import Analysis
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import sizes
from limitlaw.core.program import Output, without_numbers
from limitlaw.engines import engine
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.dense.rules import DenseDraw, iterations
from limitlaw.engines.dense.simulate import batch_size
from limitlaw.engines.dense.weights import DrawnWeights, numbered, roots
from limitlaw.engines.effort import Pace
from limitlaw.engines.engine import PROGRAMS, slots
from limitlaw.engines.run import batched, drawn
from limitlaw.numerics.random import normal

READOUT = 2**31 - 1  # the number of the readout's key, which no leaf of a program has


def backward_grams(
    y: Output,
    stages: Sequence[Output],
    token: int | None,
    width: int,
    pace: Pace,
    key: Key[Array, ""],
) -> list[Float[Any, "draws layers tokens tokens"]]:
    """n⁻¹⟨dx_i, dx_j⟩ at each stage, in each draw; for a stage carried by a loop, after each
    iteration.

    dx = √n ∂f/∂x with f = n^{−1/2} Σ_i u_i·y_i and u standard normal. `token`: the only i that is
    read out; None for all.
    """
    outputs = (*stages, y)
    program = engine.program_of(outputs)
    name = ("backward", engine.structure(program, outputs), token, width)
    batch = max(1, batch_size(program, width) // 2)
    compiled = PROGRAMS.get(
        name, lambda: Compiled(batched(_draw(without_numbers(outputs), token, width), batch))
    )
    return drawn("gradients", compiled, batch, list(roots(program).values()), pace, key)


def _draw(outputs: tuple[Output, ...], token: int | None, width: int) -> Callable[..., Any]:
    """A function of the program's constants and a key: the Gram matrices of one draw. The last
    output is y.
    """
    program = engine.program_of(outputs)
    *stages, y = outputs
    values = [stage.value for stage in stages]

    def draw(
        arguments: list[Any], key: Key[Array, ""]
    ) -> list[Float[Array, "layers tokens tokens"]]:
        given = slots(program, arguments)

        def forward(probes: list[Float[Array, "..."]]) -> Float[Array, "*tokens dim"]:
            weights = DrawnWeights(key, width, numbered(program), Analysis(program).reused, given)
            run = DenseDraw(given, width, weights, dict(zip(values, probes, strict=True)))
            run.run(program)
            return run.at(y)

        last, pull = jax.vjp(forward, [jnp.zeros(_shape(value, width)) for value in values])
        (found,) = pull(_readout(key, last.shape, token))
        return [_gram(dx, value) for dx, value in zip(found, values, strict=True)]

    return draw


def _shape(value: Value, width: int) -> tuple[int, ...]:
    assert value.dim is not None
    return (*iterations(value), *sizes(value.axes), value.dim.at(width))


def _readout(
    key: Key[Array, ""], shape: tuple[int, ...], token: int | None
) -> Float[Array, "*tokens dim"]:
    u = normal(jax.random.fold_in(key, READOUT), shape)
    return u if token is None else jnp.zeros(shape).at[..., token, :].set(u[..., token, :])


def _gram(dx: Float[Array, "... dim"], value: Value) -> Float[Array, "layers tokens tokens"]:
    (layers,) = iterations(value) or (1,)
    dx = dx.reshape(layers, -1, dx.shape[-1])
    return dx @ dx.mT / dx.shape[-1]
