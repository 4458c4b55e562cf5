"""Several devices of JAX share the batches of draws; the draws are those of one device."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, sys
import jax
import numpy as np
import limitlaw as ll
from limitlaw.engines import run
from limitlaw.engines.effort import BUDGET

BUDGET.together = 64
used = []
default_device = jax.default_device

def seen(device):
    used.append(device.id if device else 0)  # the only one has no name
    return default_device(device)

run.jax.default_device = seen
y = ll.attention(ll.initial((2,)), heads=2)
key = jax.random.key(0)
net = ll.transformer(ll.initial((2,)), 2, 1, hidden=None)
draws = [
    *jax.tree.leaves(ll.finite_samples(y, 16, 500, key)),
    *jax.tree.leaves(ll.simulate(y, 16, 500, key)),
    ll.limit(y, 512).variance(),
    ll.trace(net, ["variance"], samples=256, key=0)["variance"].value,
]
assert set(used) == set(range(jax.device_count())), used
digest = hashlib.sha256(b"".join(np.ascontiguousarray(d).tobytes() for d in draws))
print(jax.device_count(), digest.hexdigest())
"""


def by_devices(count: int) -> list[str]:
    """How many devices there were, and a hash of the draws they made."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"},
    )
    if ran.returncode:
        pytest.fail(ran.stderr)
    return ran.stdout.split()


def test_devices_share_draws() -> None:
    """All of two devices have something to do, and every byte is that of one."""
    (one, alone), (two, shared) = by_devices(1), by_devices(2)
    assert (one, two) == ("1", "2")
    assert alone == shared
