"""Errors in one clear line where a file or a folder cannot be read or written."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from limitlaw import files

DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class StoreError(OSError):
    """A file or folder that cannot be read or written; its text is one line for the user."""


@contextlib.contextmanager
def one_line_errors(action: str, path: Path) -> Iterator[None]:
    """Refusals of the system become a StoreError, "cannot write /path: No space left"."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        advice = "free some, or choose" if error.errno in DISK_FULL else "choose"
        why = f"{error.strerror or error} ({advice} another folder with --out)"
        raise StoreError(f"cannot {action} {path}: {why}") from error


def write(path: Path, data: bytes) -> None:
    """Write all of a file, or leave what was there."""
    with one_line_errors("write", path):
        files.write(path, data)


def make_folder(folder: Path) -> None:
    """Make the folder and those above it, and remove what killed runs were writing there."""
    with one_line_errors("write", folder):
        files.make_folder(folder)
