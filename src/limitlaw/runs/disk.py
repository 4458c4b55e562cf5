"""One clear line where a file or a folder cannot be read or written."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from limitlaw import files

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class StoreError(OSError):
    """A file or folder that cannot be read or written; its text is one line for the user."""


@contextlib.contextmanager
def one_line_errors(action: str, path: Path) -> Iterator[None]:
    """Whatever the operating system refuses becomes a StoreError:
    "cannot write /path: No space left on device".
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        advice = (
            "free some, or choose another folder"
            if error.errno in FULL
            else "choose another folder"
        )
        raise StoreError(
            f"cannot {action} {path}: {error.strerror or error} ({advice} with --out)"
        ) from error


def write(path: Path, data: bytes) -> None:
    """All of a file, or what was there."""
    with one_line_errors("write", path):
        files.write(path, data)


def make_folder(folder: Path) -> None:
    """The folder and those above it, free of what killed runs were writing."""
    with one_line_errors("write", folder):
        files.make_folder(folder)
