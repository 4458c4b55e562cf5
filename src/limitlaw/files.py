"""Files that are whole or absent: the one way in which anything here is written."""

import contextlib
import errno
import itertools
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_count = itertools.count()
_drafts: set[Path] = set()  # files that are being filled


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to fill, which takes the place of `path` once it is filled without an error: even at
    a SIGKILL the path holds all old or all new bytes. Links are followed; what is no plain file is
    written directly.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    # a folder's permission is enough to replace it, but not ours
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    draft = place.with_name(f".{place.name[:80]}.{_host()}.{os.getpid()}.{next(_count)}.tmp")
    _drafts.add(draft)
    try:
        with draft.open("wb") as file:
            if place.exists():
                draft.chmod(stat.S_IMODE(place.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
        _drafts.discard(draft)


def remove_drafts() -> None:
    """Remove the half-written files of this process, which is about to end."""
    for draft in tuple(_drafts):
        with contextlib.suppress(OSError):
            draft.unlink()


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write all of a file, or leave what was there."""
    with replacing(path) as file:
        file.write(data)


def make_folder(folder: Path) -> None:
    """Make the folder and those above it, and remove what killed processes were writing there."""
    folder.mkdir(parents=True, exist_ok=True)
    for draft in folder.glob(f".*.{_host()}.*.tmp"):
        if not _alive(draft.name.split(".")[-3]):
            draft.unlink(missing_ok=True)


def _host() -> str:
    """This machine's name: folders are shared, and process numbers are one machine's."""
    return socket.gethostname().replace(".", "-") or "localhost"


def _alive(process: str) -> bool:
    """Does a process run? True where that cannot be found out."""
    if not process.isdecimal() or os.name != "posix":
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
