"""The exact finite-width engine against drawing every matrix,
in one process on one core in float64.

An attention layer, one requested token. `floor` is what the random numbers alone cost: the normals
and χ variables that must be drawn over the rates at which this machine draws them, measured in the
same run. --gpu times `finite` alone, on the default device, in float64.
"""

import argparse
import functools
import os
import time
from collections.abc import Callable
from typing import Any

import timing
from timing import measure

TOKENS = 4
ROWS = ((1024, 2), (256, 256), (256, 2), (16, 2))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--gpu", action="store_true", help="time finite alone on the default device"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one repetition")
    parser.add_argument("--repetitions", type=int, default=3, help="the best of this many counts")
    arguments = parser.parse_args()
    if not arguments.gpu:  # before JAX and BLAS are imported: they size their thread pools by it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        timing.CLOCK = time.process_time  # on one core it does not count what others do there
    import jax

    jax.config.update("jax_enable_x64", True)
    if arguments.gpu:
        gpu_table()
    else:
        versus_numpy(arguments.seconds, arguments.repetitions)
        growth(arguments.seconds, arguments.repetitions)


def layer(heads: int, gaussian_tokens: bool = False) -> Any:
    """Token 0 of an attention layer on four tokens."""
    import limitlaw as ll

    x = ll.initial((TOKENS,)) if gaussian_tokens else ll.relu(ll.matrices(TOKENS) @ ll.initial())
    return ll.attention(x, heads=heads)[0]


def exact(width: int, heads: int, gaussian_tokens: bool = False) -> Callable[[int], None]:
    """`finite`: conditions of the exact law; no matrix is drawn."""
    import jax

    import limitlaw as ll

    y = layer(heads, gaussian_tokens)
    return lambda count: (ll.finite(y, width, count, jax.random.key(0)), None)[1]


def simulated(width: int, heads: int) -> Callable[[int], None]:
    """`simulate`: every matrix drawn."""
    import jax

    import limitlaw as ll

    y = layer(heads)
    return lambda count: jax.block_until_ready(ll.simulate(y, width, count, jax.random.key(0)))


def numpy_dense(n: int, heads: int) -> Callable[[int], None]:
    """NumPy, one network at a time, every matrix drawn."""
    import numpy as np

    rng = np.random.default_rng(0)

    def W() -> Any:
        return rng.standard_normal((n, n)) / np.sqrt(n)

    def network() -> float:
        h = rng.standard_normal(n)
        x = np.maximum(np.stack([W() @ h for _ in range(TOKENS)]), 0)
        y = 0.0
        for _ in range(heads):
            q, k, v = W() @ x[0], x @ W().T, x @ W().T
            e = np.exp(k @ q / np.sqrt(n))
            y += (W() @ (e / e.sum() @ v))[0]
        return y / np.sqrt(heads)

    def run(count: int) -> None:
        for _ in range(count):
            network()

    return run


def rates() -> tuple[float, float]:
    """Normals and χ_1024 variables a second on this core."""
    import jax

    from limitlaw.numerics.gaussian_vectors import chi
    from limitlaw.numerics.random import normal_pairs

    def rate(draw: Callable[[Any], Any], size: int) -> float:
        compiled = jax.jit(lambda key: jax.vmap(draw)(jax.random.split(key, 64)))

        def run(count: int) -> None:
            for _ in range(count):
                result = compiled(jax.random.key(0))
            jax.block_until_ready(result)

        return 64 * size / measure([run], 0.5, 6)[0]

    return rate(lambda key: normal_pairs(key, (1024,)), 2048), rate(
        lambda key: chi(key, 1024, (256,)), 256
    )


def floor(width: int, heads: int, speeds: tuple[float, float]) -> float:
    """Seconds for the random numbers of one draw: the tokens' coordinates,
    s normals and two χ a head, one χ for h.
    """
    return (TOKENS * width + TOKENS * heads) / speeds[0] + (2 * heads + 1) / speeds[1]


def versus_numpy(seconds: float, repetitions: int) -> None:
    """Samples a second and their ratios, and time over the floor."""
    rates()  # a fresh process draws at half its later speed, until its allocator keeps the pages
    speeds = rates()
    print(
        f"one core, float64; {speeds[0] / 1e6:.0f} million normals/s, {speeds[1] / 1e6:.0f} "
        "million χ/s\n"
    )
    print(
        "| n | H | NumPy, 1/s | simulate, 1/s | finite, 1/s | simulate / NumPy | finite / NumPy | "
        "finite / floor |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for width, heads in ROWS:
        codes = [numpy_dense(width, heads), simulated(width, heads), exact(width, heads)]
        times = measure(codes, seconds, repetitions)
        per_second = [f"{1 / t:.3g}" if t > 1e-3 else f"{1 / t:,.0f}" for t in times]
        ratios = [f"{times[0] / t:,.4g}" for t in times[1:]]
        over = f"{times[2] / floor(width, heads, speeds):.2f}"
        print(
            "| " + " | ".join([str(width), str(heads), *per_second, *ratios, over]) + " |",
            flush=True,
        )


def growth(seconds: float, repetitions: int) -> None:
    """How the time grows with the width: at most linearly, and not at all for Gaussian tokens."""
    speeds = rates()
    print(
        "\n| tokens | n | finite, 1/s | time / first row | finite / floor |\n|---|--:|--:|--:|--:|"
    )
    for gaussian, widths in ((False, (1024, 16_384)), (True, (1_000, 1_000_000))):
        times = measure([exact(width, 2, gaussian) for width in widths], seconds, repetitions)
        for width, t in zip(widths, times, strict=True):
            kind = "Gaussian" if gaussian else "ReLU"
            over = "" if gaussian else f"{t / floor(width, 2, speeds):.2f}"
            print(
                f"| {kind} | {width:,} | {1 / t:,.0f} | {t / times[0]:.2f} | {over} |", flush=True
            )


def _one(outputs: Any, width: int, arrays: Any, key: Any) -> Any:
    """The conditions of one draw."""
    from limitlaw.core.analysis import Analysis
    from limitlaw.engines import engine
    from limitlaw.engines.engine import slots
    from limitlaw.engines.frames.draw import FramesDraw
    from limitlaw.engines.frames.fresh import at_width
    from limitlaw.engines.frames.statistics import Conditions

    program = engine.program_of(outputs)
    size = functools.partial(at_width, n=width)
    draw = FramesDraw(Analysis(program), slots(program, arrays), size, key)
    draw.run(program)
    return Conditions(1)(draw, outputs)


def gpu_table() -> None:
    """Draws of conditions a second on the default device, left there."""
    import jax

    from limitlaw.engines import engine
    from limitlaw.engines.frames import finite
    from limitlaw.engines.run import batched

    print(jax.devices()[0], "\n\n| n | H | draws together | million/s |\n|--:|--:|--:|--:|")
    for width, heads in ((1024, 2), (256, 256)):
        outputs = finite.demanded_outputs((layer(heads).core,))
        program = engine.program_of(outputs)
        draw = functools.partial(_one, outputs, width)
        batch = finite._batch_size(program, width)
        draws = functools.partial(jax.jit(batched(draw, batch)), program.arrays)
        jax.block_until_ready(draws(jax.random.key(0), 0))
        calls, best = max(1, 2**21 // batch), 0.0
        for repetition in range(5):
            start = time.perf_counter()
            for i in range(calls):
                result = draws(jax.random.key(repetition), i * batch)
            jax.block_until_ready(result)
            best = max(best, calls * batch / (time.perf_counter() - start))
        print(f"| {width} | {heads} | {batch:,} | {best / 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
