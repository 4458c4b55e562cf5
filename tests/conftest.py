"""What all tests share: JAX in 64-bit mode, and a way to see the library's own error messages."""

import gc
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

jax.config.update("jax_enable_x64", True)
MOST_MAPPINGS = 45_000


@pytest.fixture(autouse=True, scope="session")
def patience() -> None:
    """A slow machine changes no number that is tested: defaults draw all that they would on a fast one."""
    from limitlaw.engines import effort

    effort.SECONDS = 1e6


@pytest.fixture(autouse=True)
def few_mappings() -> Iterator[None]:
    """Compiled programs are forgotten before there are so many that a process may map no more memory (65,530 areas)."""
    from limitlaw import clear_cache

    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPPINGS:
        clear_cache()
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def as_user() -> Iterator[None]:
    """Runtime type checks off, as users run the library: a wrong type meets our message, not beartype's."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
