"""Chunks on disk: each in a file with a checksum, beside a manifest of the run."""

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from limitlaw.runs.chunks import Chunk, canonical_json, plain, versions
from limitlaw.runs.disk import make_folder, one_line_errors, write


def _warn(message: str) -> None:
    print(message, file=sys.stderr)


class Store:
    """A folder of finished chunks: `<identity>.chunk` is a line of JSON that says what it is,
    length and hash of the .npz archive behind it. Any byte that differs shows.
    """

    def __init__(self, folder: str | Path, warn: Callable[[str], None] = _warn):
        self.folder = Path(folder)
        self._warn = warn
        self._checksums: dict[str, str] = {}
        make_folder(self.folder)

    def path(self, chunk: Chunk) -> Path:
        """The path of the file of a chunk, whether or not it is there."""
        return self.folder / f"{chunk.identity}.chunk"

    def get(self, chunk: Chunk) -> dict[str, np.ndarray] | None:
        """The arrays of a chunk; None where it is missing or (with a line of warning) damaged."""
        path = self.path(chunk)
        with one_line_errors("read", path):
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        header, _, payload = data.partition(b"\n")
        arrays = _unpacked(payload) if header == _header(chunk, payload) else None
        if arrays is None:
            self._warn(f"{path} is damaged: {chunk.name} is computed again")
        else:
            self._checksums[chunk.identity] = _checksum(payload)
        return arrays

    def put(self, chunk: Chunk, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the arrays of a chunk, in place of whatever was there."""
        payload = _packed(arrays)
        write(self.path(chunk), _header(chunk, payload) + b"\n" + payload)
        self._checksums[chunk.identity] = _checksum(payload)

    def write_manifest(self, settings: Mapping[str, Any], chunks: Iterable[Chunk]) -> None:
        """Write manifest.json: settings, versions and chunks, with checksums of finished ones;
        before the work, which shows that the folder can be written, and after it.
        """
        listed = [
            {
                "name": chunk.name,
                "identity": chunk.identity,
                "sha256": self._checksums.get(chunk.identity),
            }
            for chunk in dict.fromkeys(chunks)
        ]
        manifest = {"settings": dict(settings), "versions": versions(), "chunks": listed}
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        write(self.folder / "manifest.json", text.encode())


def _header(chunk: Chunk, payload: bytes) -> bytes:
    proof = {"length": len(payload), "sha256": _checksum(payload)}
    return canonical_json({"name": chunk.name, **chunk.description(), **proof})


def _checksum(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz archive that depends on the arrays only: `numpy.savez` writes the time as well."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return archive.getvalue()


def _unpacked(payload: bytes) -> dict[str, np.ndarray] | None:
    """The arrays of an archive, None where it is something else; no code in it is run."""
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            return {name: plain(name, array) for name, array in archive.items()}
    except Exception:
        return None
