"""How a command ends early: with one line that names the option which is wrong; or by Ctrl-C, at
once, also while JAX compiles or computes and Python cannot be interrupted.
"""

import contextlib
import importlib.util
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

import typer

from limitlaw.engines.bounds import NOBODY, Call, calling
from limitlaw.files import remove_drafts, replacing

GRACE = 1.0  # seconds in which Python may end the command itself
STATUS = 128 + signal.SIGINT
told = threading.Event()  # set where a command says itself that it was stopped


def check_extra(command: str, package: str, name: str, extra: str) -> None:
    """Raise where a package that a command needs beside the library is not installed."""
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{command} needs {name}: pip install 'limitlaw[{extra}]'")


@contextlib.contextmanager
def one_line_errors(call: Call = NOBODY, options: Sequence[str] = ()) -> Iterator[None]:
    """A context in which bad input, or too much work, ends the command with code 2 and one line,
    which names the option where it begins with an argument called as one of `options`.
    """
    try:
        with calling(call):
            yield
    except BrokenPipeError:
        raise  # whoever reads the output has closed it
    except (ValueError, TypeError, OSError) as error:
        _fail(str(error), options)


def _fail(message: str, options: Sequence[str]) -> NoReturn:
    line = re.sub(r"\s*\n\s*", " ", message.strip()).replace("force=True", "--force")
    named = re.match(rf"(?:(?:limit|finite): )?({'|'.join(options)})(?![\w:])", line)
    if options and named:
        line = f"--{named[1].replace('_', '-')}{line[named.end() :]}"
    typer.echo(f"limitlaw: {line}", err=True)
    raise typer.Exit(2)


@contextlib.contextmanager
def opened(
    option: str, path: Path | None, suffixes: tuple[str, ...] = ()
) -> Iterator[BinaryIO | None]:
    """A file that takes the place of `path` once filled; opened first, to fail before the work."""
    if path is None:
        yield None
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} must end in {', '.join(suffixes)}, got {path}")
    if path.is_dir():
        raise ValueError(f"{option} {path}: is a directory")
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(replacing(path))
        except OSError as error:
            raise ValueError(f"{option} {path}: cannot be written ({error.strerror})") from None
        yield file


def end_promptly() -> None:
    """Let Ctrl-C end the command promptly from now on; to be called once, in the main thread."""
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
