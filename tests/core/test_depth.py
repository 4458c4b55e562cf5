"""Many blocks: what is known of a program is found in time that grows as it does,
and no depth is too deep.
"""

import gc
import time

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.dense import simulate as dense
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.frames import finite as frames
from limitlaw.engines.frames.statistics import Samples


def block(x: ll.Wide) -> ll.Wide:
    """A pre-norm block of a Transformer."""
    x = x + ll.attention(ll.layernorm(x), heads=2)
    return x + ll.mlp(ll.layernorm(x), hidden=4 * ll.n)


def written_out(times: int) -> ll.Wide:
    x = ll.initial(4)
    for _ in range(times):
        x = block(x)
    return x


@pytest.mark.usefixtures("as_user")
def test_check_of_96_blocks() -> None:
    """Under a second of this process, written out or repeated:
    at best of three, as a shared machine only adds.
    """
    for y in (written_out(96), ll.repeat(block, ll.initial(4), 96)):
        assert min(time_to_check(y) for _ in range(3)) < 1


def time_to_check(y: ll.Wide) -> float:
    gc.collect()
    start = time.process_time()
    report = ll.check(y)
    assert "depth 96" in report.beyond
    return time.process_time() - start


@pytest.mark.usefixtures("as_user")
def test_a_thousand_blocks() -> None:
    """No recursion follows the depth of a program: not in writing,
    lowering, checking, printing or rewriting it.
    """
    x = ll.initial(2)
    for _ in range(1000):
        x = x + ll.Matrix() @ ll.rmsnorm(x)
    assert ll.check(x).beyond == ("norms",)
    assert len(str(x).splitlines()) > 1000
    (output,) = frames.demanded_outputs((x[0].core,))
    assert len(frames.engine.program_of((output,)).families) == 1000


def test_a_thousand_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are drawn as two are."""
    monkeypatch.setattr(BUDGET, "together", 64)
    y = ll.repeat(lambda x: ll.rmsnorm(x + ll.Matrix() @ x), ll.initial(2), 1000)
    draws = np.asarray(ll.finite_samples(y, 4, 64, jax.random.key(0)))
    assert draws.shape == (64, 2)
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("engine", ["frames", "dense"])
def test_what_is_compiled_does_not_grow_with_the_turns(engine: str) -> None:
    """24 turns make no longer a program than 2."""
    lengths = [length(engine, ll.repeat(block, ll.initial(2), times)) for times in (2, 24)]
    assert lengths[1] < 1.01 * lengths[0]


def length(engine: str, y: ll.Wide) -> int:
    """Of the traced program."""
    if engine == "frames":
        outputs = frames.demanded_outputs((y.core,))
        _, draws = frames.compiled(outputs, 8, Samples())
        arguments = frames.engine.program_of(outputs).arrays, 8.0
    else:
        outputs = (y.core,)
        _, draws = dense.compiled(outputs, 8, None)
        arguments = list(dense.roots(dense.engine.program_of(outputs)).values())
    return len(str(jax.make_jaxpr(draws.function)(arguments, jax.random.key(0), 0)))
