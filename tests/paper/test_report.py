"""The report: one page that says what holds, shows every figure, and asks nobody for anything."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from limitlaw.apps.paper.report import FIGURES, report
from limitlaw.apps.reports.page import duration
from paper import synthetic

EVIL = '<script>alert("x")</script>'


def write(folder: Path, tables: object = None, claims: object = None, facts: object = None) -> str:
    """The page without plotly.js, which is checked to be there once."""
    path = folder / "report.html"
    chosen = [synthetic.tables() if tables is None else tables, claims or synthetic.CLAIMS]
    report(*chosen, synthetic.FACTS if facts is None else facts, path)
    text = path.read_text(encoding="utf-8")
    pieces = re.split(r"<script>(/\*\*.*?)</script>", text, flags=re.DOTALL)
    assert len(pieces) == 3
    assert len(pieces[1]) > 1_000_000
    return pieces[0] + pieces[2]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The full report."""
    return write(tmp_path_factory.mktemp("report"))


class Reader(HTMLParser):
    """Collects what a browser would read, and sees tags that are not closed."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr", "line", "circle", "polygon"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def read(text: str) -> Reader:
    """The page as read to its end."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_it_is_a_page(page: str) -> None:
    """Tags are closed, ids are there once, links inside the page lead somewhere."""
    reader = read(page)
    assert len(reader.ids) == len(set(reader.ids))
    inside = [
        value[1:]
        for _, name, value in reader.attributes
        if name == "href" and value.startswith("#")
    ]
    assert inside
    assert {*inside} <= {*reader.ids}
    assert page.startswith("<!DOCTYPE html>")
    for part in (
        'lang="en"',
        '<meta charset="utf-8">',
        'name="viewport"',
        "<title>",
        "@media print",
        "<noscript>",
    ):
        assert part in page


def test_nothing_is_fetched(page: str) -> None:
    """No address of another host anywhere, and the browser is told to refuse all."""
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", page)
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page
    fetching = [
        (tag, name) for tag, name, _ in read(page).attributes if name in ("src", "srcset", "data")
    ]
    assert fetching == []
    assert not [
        tag
        for tag, _, _ in read(page).attributes
        if tag in ("link", "img", "iframe", "object", "embed")
    ]
    assert 'plotlyServerURL: ""' in page


def test_order(page: str) -> None:
    """Title, what was done, claims, figures, beyond, how; each figure with its caption."""
    parts = [
        "<h1>",
        "limitlaw reproduce --seed 0",
        "4 min 12 s",
        "about 6,300 times",
        "2 of 3 claims hold",
    ]
    parts += [f'id="{name}"' for name in FIGURES if name.startswith("fig")]
    parts += [
        "Beyond the paper",
        'id="heads"',
        'id="theorem"',
        "How this was computed",
        "e^−5000",
        "Settings",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert page.count("<figcaption>") == len(FIGURES)


def test_claims(page: str) -> None:
    """A word, a sign and a colour for each."""
    assert page.count('<span class="yes">✓ holds</span>') == 2
    assert page.count('<span class="no">✗ does not hold</span>') == 1
    assert "a &lt; b &amp; c" in page
    assert '<a href="#fig1b">Figure 1(b)</a>' in page


def test_text_is_escaped(tmp_path: Path) -> None:
    """Wherever it comes from."""
    claims = {name: np.array([EVIL]) for name in synthetic.CLAIMS}
    facts = {
        "command": EVIL,
        "speedup": EVIL,
        "elided": EVIL,
        "settings": {EVIL: EVIL},
    }
    text = write(tmp_path, {}, claims, {**facts, "versions": {EVIL: EVIL}})
    assert EVIL not in text
    assert text.count("&lt;script&gt;alert") >= 9
    assert "0 of 1 claims hold" in text
    read(text)


def test_what_was_not_run_is_left_out(tmp_path: Path) -> None:
    """Figures, sections and facts."""
    text = write(tmp_path, {"heads": synthetic.tables()["heads"]}, facts={})
    assert 'id="heads"' in text
    for part in ("fig1a", "The figures of the paper", "How this was computed", "Files</h2>"):
        assert part not in text
    text = write(tmp_path, {"fig2a": synthetic.tables()["fig2a"]}, facts={"seconds": 12.34})
    assert "Beyond the paper" not in text
    assert "<p>Figure 2(a) of" in text
    assert "12.3 s" in text


def test_links_to_files(tmp_path: Path) -> None:
    """Those that are there, with relative addresses."""
    (tmp_path / "figures").mkdir()
    for name in ("figures/heads.pdf", "heads.csv", "other.csv", "chunk.npz", ".heads.png"):
        (tmp_path / name).touch()
    text = write(tmp_path, {"heads": synthetic.tables()["heads"]})
    assert '<a href="figures/heads.pdf">heads.pdf</a> · <a href="heads.csv">heads.csv</a>' in text
    assert '<a href="other.csv">other.csv</a>' in text
    assert "heads.png" not in text
    assert "npz" not in text


def test_plots_are_valid(page: str) -> None:
    """plotly knows every word of them; each has its place,
    and each entry of a legend its curves.
    """
    data = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    plots = json.loads(data.group(1))
    ids = {*read(page).ids}
    assert {*plots} <= ids
    for plot in plots.values():
        figure = go.Figure(data=plot["data"], layout=plot["layout"])
        assert figure.layout.xaxis.title.text
        assert len(figure.data) > 0
    names = {trace.get("name") for plot in plots.values() for trace in plot["data"]}
    labels = {
        value
        for _, name, value in read(page).attributes
        if name == "data-label" and "<i>" in value
    }
    assert labels
    assert labels <= names


def test_same_bytes_each_time(tmp_path: Path) -> None:
    """Nothing in it depends on when or how often it is written."""
    tables = {name: synthetic.tables()[name] for name in ("fig1_kl", "joint")}
    assert write(tmp_path, tables) == write(tmp_path, tables)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_duration() -> None:
    """In words."""
    assert [duration(s) for s in (0.04, 59.94, 60.0, 252.4)] == [
        "0.0 s",
        "59.9 s",
        "1 min 0 s",
        "4 min 12 s",
    ]
