"""PyTorch on one thread: the modules are tiny, and threads that wait for each other
take most of the time.
"""

import contextlib

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """One thread of PyTorch, where there is one."""
    with contextlib.suppress(ImportError):
        import torch.nn

        torch.set_num_threads(1)
