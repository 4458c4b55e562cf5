"""Every figure as PDF and PNG, from tables."""

from collections.abc import Mapping
from pathlib import Path

from limitlaw.figures import printed
from limitlaw.figures.catalogue import pictures
from limitlaw.figures.tables import Table, checked


def draw(tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Write the figures whose tables are there as PDF and PNG into the folder, which is made; their paths, in order."""
    found = pictures(checked(tables))
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, picture in found.items() for path in printed.write(picture, folder, name)]
