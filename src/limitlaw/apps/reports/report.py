"""One HTML page with claims and interactive figures, which needs nothing but itself."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from limitlaw import files
from limitlaw.apps.reports import interactive, page
from limitlaw.apps.reports.figure import Figure
from limitlaw.figures.picture import Picture

_SUFFIXES = ("pdf", "png", "csv")


@dataclass(frozen=True)
class HtmlReport:
    """A page of claims, figures and facts about a paper, cited in HTML. One about several papers
    says in `what` what it holds, in HTML, and gives its figures a `heading`.
    """

    title: str
    paper: str
    drawn: Sequence[tuple[Figure, Picture]]
    claims: Sequence[Mapping[str, Any]]
    facts: Mapping[str, Any]
    what: str = ""
    heading: str = "The figures of the paper"

    def write(self, path: Path) -> None:
        """Write the page, with links to the pictures and tables beside it or one folder below."""
        beside = _files(path.parent)
        figures = [figure for figure, _ in self.drawn]
        body = [
            page.head(self.title, self.what or page.figures_of(self.paper, figures), self.facts),
            page.contents(figures),
            page.claims(self.claims, figures),
            self._section("figures", self.heading, beside, paper=True),
            self._section("beyond", "Beyond the paper", beside, paper=False),
            page.computed(self.facts),
            page.downloads(beside),
        ]
        text = page.document(self.title, "".join(body), _asset("report.css"), _scripts(self.drawn))
        files.write(path, text.encode())

    def _section(self, key: str, title: str, beside: dict[str, str], paper: bool) -> str:
        """The figures of the paper, or those beyond it; empty if there are none."""
        chosen = [pair for pair in self.drawn if bool(pair[0].name) == paper]
        parts = []
        for figure, picture in chosen:
            wanted = [
                f"{figure.key}.pdf",
                f"{figure.key}.png",
                *(f"{t}.csv" for t in figure.columns),
            ]
            own = {file: beside[file] for file in wanted if file in beside}
            parts.append(page.figure(figure, picture, own))
        return page.section(key, title, "".join(parts)) if parts else ""


def _files(folder: Path) -> dict[str, str]:
    """Pictures and tables beside the report or one folder below, by name."""
    places = [*sorted(folder.glob("*.*")), *sorted(folder.glob("*/*.*"))]
    kept = [
        place
        for place in places
        if place.suffix[1:] in _SUFFIXES and not place.name.startswith(".")
    ]
    return {place.name: place.relative_to(folder).as_posix() for place in reversed(kept)}


def _scripts(drawn: Iterable[tuple[Figure, Picture]]) -> str:
    """plotly.js, the data of every panel, and the lines that bring them together."""
    from plotly.offline import get_plotlyjs

    panels = {
        page.panel_id(figure.key, i): interactive.plot(panel)
        for figure, picture in drawn
        for i, panel in enumerate(picture.panels)
    }
    data = json.dumps(panels, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = data.replace("<", "\\u003c")
    return (
        f"<script>{get_plotlyjs()}</script>\n"
        f'<script type="application/json" id="plots">{data}</script>\n'
        f"<script>{_asset('report.js')}</script>"
    )


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")
