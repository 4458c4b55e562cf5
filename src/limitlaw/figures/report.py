"""One report.html with the claims and the interactive figures, which needs nothing but itself."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from limitlaw import files
from limitlaw.figures import interactive, page
from limitlaw.figures.captions import CAPTIONS
from limitlaw.figures.catalogue import FIGURES, pictures
from limitlaw.figures.picture import Picture
from limitlaw.figures.tables import Table, checked

_KINDS = ("pdf", "png", "csv")


def report(tables: Mapping[str, Table], claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report; it links to the pictures and tables that already lie beside it or one folder below."""
    found = pictures(checked(tables))
    beside = _files(path.parent)
    body = [
        page.head(facts, [CAPTIONS[name].name for name in found if CAPTIONS[name].name]),
        page.claims(claims, list(found)),
        _section("figures", "The figures of the paper", found, beside, paper=True),
        _section("beyond", "Beyond the paper", found, beside, paper=False),
        page.computed(facts),
        page.downloads(beside),
    ]
    text = page.document("".join(body), _asset("report.css"), _scripts(found))
    files.write(path, text.encode())


def _files(folder: Path) -> dict[str, str]:
    """Pictures and tables beside the report or one folder below, by name."""
    places = [*sorted(folder.glob("*.*")), *sorted(folder.glob("*/*.*"))]
    kept = [place for place in places if place.suffix[1:] in _KINDS and not place.name.startswith(".")]
    return {place.name: place.relative_to(folder).as_posix() for place in reversed(kept)}


def _section(key: str, title: str, found: dict[str, Picture], beside: dict[str, str], paper: bool) -> str:
    """The figures of the paper or those beyond it; nothing if there are none."""
    names = [name for name in found if bool(CAPTIONS[name].name) == paper]
    figures = (page.figure(name, CAPTIONS[name], found[name], _own(name, beside)) for name in names)
    return page.section(key, title, "".join(figures)) if names else ""


def _own(name: str, beside: dict[str, str]) -> dict[str, str]:
    """The files of one figure."""
    entry = FIGURES[name]
    wanted = [f"{name}.pdf", f"{name}.png", *(f"{table}.csv" for table in (*entry.tables, *entry.optional))]
    return {file: beside[file] for file in wanted if file in beside}


def _scripts(found: dict[str, Picture]) -> str:
    """plotly.js, the data of every panel, and the lines that bring them together."""
    from plotly.offline import get_plotlyjs

    panels = {
        page.panel_id(name, i): interactive.plot(panel)
        for name, picture in found.items()
        for i, panel in enumerate(panel for row in picture.rows for panel in row)
    }
    data = json.dumps(panels, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f"<script>{get_plotlyjs()}</script>\n"
        f'<script type="application/json" id="plots">{data}</script>\n'
        f"<script>{_asset('report.js')}</script>"
    )


def _asset(name: str) -> str:
    return (resources.files("limitlaw.figures") / "assets" / name).read_text(encoding="utf-8")
