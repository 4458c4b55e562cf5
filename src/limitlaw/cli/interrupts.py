"""Ctrl-C ends a command at once, also while JAX compiles or computes and Python
cannot be interrupted.
"""

import os
import signal
import sys
import threading
import time

from limitlaw.files import remove_drafts

GRACE = 1.0  # seconds in which Python may end the command itself
STATUS = 128 + signal.SIGINT
told = threading.Event()  # set where a command says itself that it was stopped


def end_promptly() -> None:
    """From now on; to be called once, in the main thread."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    # filled by the signal itself, whatever Python is doing
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_wait_for_interrupt, args=(read,), daemon=True).start()


def _wait_for_interrupt(read: int) -> None:
    while signal.SIGINT not in os.read(read, 64):
        pass
    time.sleep(GRACE)
    remove_drafts()
    if not told.is_set():
        print("limitlaw: stopped", file=sys.stderr, flush=True)
    os._exit(STATUS)
