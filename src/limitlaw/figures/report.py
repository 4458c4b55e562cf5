"""One HTML page with claims and interactive figures, which needs nothing but itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from limitlaw import files
from limitlaw.figures import interactive, page
from limitlaw.figures.page import Caption
from limitlaw.figures.picture import Picture

_KINDS = ("pdf", "png", "csv")


@dataclass(frozen=True)
class Captioned:
    """A picture, its words, and the names of the tables it shows."""

    caption: Caption
    picture: Picture
    tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What a page says about a paper, which it cites in HTML; figures by the name of their files."""

    title: str
    paper: str
    figures: Mapping[str, Captioned]
    claims: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]

    def write(self, path: Path) -> None:
        """Write the page; it links to the pictures and tables that already lie beside it or one folder below."""
        beside = _files(path.parent)
        captions = {name: shown.caption for name, shown in self.figures.items()}
        names = [caption.name for caption in captions.values() if caption.name]
        body = [
            page.head(self.title, self.paper, self.facts, names),
            page.claims(self.claims, captions),
            self._section("figures", "The figures of the paper", beside, paper=True),
            self._section("beyond", "Beyond the paper", beside, paper=False),
            page.computed(self.facts),
            page.downloads(beside),
        ]
        text = page.document(self.title, "".join(body), _asset("report.css"), self._scripts())
        files.write(path, text.encode())

    def _section(self, key: str, title: str, beside: dict[str, str], paper: bool) -> str:
        """The figures of the paper or those beyond it; nothing if there are none."""
        chosen = {name: shown for name, shown in self.figures.items() if bool(shown.caption.name) == paper}
        figures = [
            page.figure(name, shown.caption, shown.picture, _own(name, shown, beside)) for name, shown in chosen.items()
        ]
        return page.section(key, title, "".join(figures)) if figures else ""

    def _scripts(self) -> str:
        """plotly.js, the data of every panel, and the lines that bring them together."""
        from plotly.offline import get_plotlyjs

        panels = {
            page.panel_id(name, i): interactive.plot(panel)
            for name, shown in self.figures.items()
            for i, panel in enumerate(panel for row in shown.picture.rows for panel in row)
        }
        data = json.dumps(panels, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        return (
            f"<script>{get_plotlyjs()}</script>\n"
            f'<script type="application/json" id="plots">{data}</script>\n'
            f"<script>{_asset('report.js')}</script>"
        )


def _files(folder: Path) -> dict[str, str]:
    """Pictures and tables beside the report or one folder below, by name."""
    places = [*sorted(folder.glob("*.*")), *sorted(folder.glob("*/*.*"))]
    kept = [place for place in places if place.suffix[1:] in _KINDS and not place.name.startswith(".")]
    return {place.name: place.relative_to(folder).as_posix() for place in reversed(kept)}


def _own(name: str, shown: Captioned, beside: dict[str, str]) -> dict[str, str]:
    """The files of one figure."""
    wanted = [f"{name}.pdf", f"{name}.png", *(f"{table}.csv" for table in shown.tables)]
    return {file: beside[file] for file in wanted if file in beside}


def _asset(name: str) -> str:
    return (resources.files("limitlaw.figures") / "assets" / name).read_text(encoding="utf-8")
