"""Files that are whole or absent, and one clear line where they cannot be written."""

import contextlib
import errno
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_count = itertools.count()


class StoreError(OSError):
    """A file or folder that cannot be read or written; its text is one line for the user."""


@contextlib.contextmanager
def one_line_errors(action: str, path: Path) -> Iterator[None]:
    """Whatever the operating system refuses becomes a StoreError: "cannot write /path: No space left on device"."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        advice = "free some, or choose another folder" if error.errno in FULL else "choose another folder"
        raise StoreError(f"cannot {action} {path}: {error.strerror or error} ({advice} with --out)") from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that at any moment, a SIGKILL included, the path holds the old bytes or all of the new."""
    draft = path.with_name(f".{path.name}.{_host()}.{os.getpid()}.{next(_count)}.tmp")
    with one_line_errors("write", path):
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()


def make_folder(folder: Path) -> None:
    """The folder and those above it, free of what killed runs were writing."""
    with one_line_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(f".*.{_host()}.*.tmp"):
            if not _alive(draft.name.split(".")[-3]):
                draft.unlink(missing_ok=True)


def _host() -> str:
    """Where a process number means something: folders are shared between machines."""
    return socket.gethostname().replace(".", "-") or "localhost"


def _alive(process: str) -> bool:
    """Whether a process runs; where that cannot be told, it does."""
    if not process.isdecimal() or os.name != "posix":
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
