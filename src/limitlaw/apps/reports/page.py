"""The parts of the report as HTML; all text is escaped but that of captions, which is our own."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.interactive import legend
from limitlaw.figures.picture import Picture

# The browser itself refuses whatever would have to be fetched.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: "
    "blob:; font-src data:"
)
_COLUMNS = {
    "claim": "Claim",
    "figure": "Where",
    "expected": "Theory or paper",
    "measured": "Measured now",
}


def document(title: str, body: str, style: str, scripts: str) -> str:
    """The whole page as HTML."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}<noscript>
<p>The figures need JavaScript; without it, see the PDF files beside this page.</p></noscript>
{scripts}
</body>
</html>
"""


def figures_of(paper: str, figures: Sequence[Figure]) -> str:
    """A phrase that says which figures of a paper, cited as it is, a page shows."""
    numbers = [figure.name.removeprefix("Figure ") for figure in figures if figure.name]
    noun = "Figure" if len(numbers) == 1 else "Figures"
    return f"{noun} {', '.join(numbers)} of {paper}" if numbers else f"Results beyond {paper}"


def head(title: str, what: str, facts: Mapping[str, Any]) -> str:
    """The title and a paragraph that says what was computed, in HTML, by which command, how long
    it took, and how much faster.
    """
    lead = f"{what}, computed again"
    if "command" in facts:
        lead += f" by <code>{escape(str(facts['command']))}</code>"
    if "seconds" in facts:
        lead += f" in {duration(float(facts['seconds']))}"
    if facts.get("speedup"):
        speedup = escape(str(facts["speedup"]).rstrip("."))
        lead += f". Speed-up over drawing every weight matrix: {speedup}"
    return f"<header>\n<h1>{title}</h1>\n<p>{lead}.</p>\n</header>\n"


def contents(figures: Sequence[Figure]) -> str:
    """Links to the claims and to every figure."""
    links = [
        ("claims", "The claims"),
        *((f.key, f"{f.name}: {f.title}" if f.name else f.title) for f in figures),
    ]
    items = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in links)
    return f'<nav aria-label="Contents">\n<ul>{items}</ul>\n</nav>\n'


def duration(seconds: float) -> str:
    """A time in words, such as "4 min 12 s"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def claims(rows: Sequence[Mapping[str, Any]], figures: Sequence[Figure]) -> str:
    """The table of claims, with a word, a colour and a sign for each verdict, and links."""
    good = sum(row["holds"] == "yes" for row in rows)
    header = "".join(f'<th scope="col">{name}</th>' for name in (*_COLUMNS.values(), "Holds?"))
    body = "".join(_claim(row, figures) for row in rows)
    count = f'<p class="count"><strong>{good} of {len(rows)} claims hold.</strong></p>'
    head_row = f"<thead><tr>{header}</tr></thead>"
    lines = f'<table class="claims">\n{head_row}\n<tbody>\n{body}</tbody>\n</table>\n'
    return section("claims", "The claims", f"{count}\n{_scrolling('Claims', lines)}")


def _claim(row: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """One row of the table of claims; the cells name their columns for narrow windows."""
    # numbers such as 1.03e-5 with a hyphen at which no line ends
    cells = {n: re.sub(r"(?<=[\d)])e-(?=\d)", "e\u2011", escape(str(row[n]))) for n in _COLUMNS}
    for figure in figures:  # a link where the text is the key or the name of a figure
        name = figure.name or figure.title
        if str(row["figure"]) in (figure.key, name, name.removeprefix("Figure ")):
            cells["figure"] = f'<a href="#{figure.key}">{name}</a>'
    labels = {name: f' data-label="{title}"' for name, title in _COLUMNS.items()}
    labels["claim"] = ""
    tds = "".join(
        f"<td{labels[name]}{' class=place' if name == 'figure' else ''}>{text}</td>"
        for name, text in cells.items()
    )
    good = row["holds"] == "yes"
    word, sign = ("yes", "✓ holds") if good else ("no", "✗ does not hold")
    verdict = f'<span class="{word}">{sign}</span>'
    return f'<tr{"" if good else " class=failed"}>{tds}<td class="verdict">{verdict}</td></tr>\n'


def section(key: str, title: str, content: str) -> str:
    """A part of the page with a heading."""
    opening = f'<section id="{key}" aria-labelledby="{key}-title">'
    return f'{opening}\n<h2 id="{key}-title">{title}</h2>\n{content}</section>\n'


def panel_id(key: str, index: int) -> str:
    """The id of the element that a panel is drawn in."""
    return f"{key}-{index + 1}"


def figure(shown: Figure, picture: Picture, files: Mapping[str, str]) -> str:
    """A figure: places for the panels, the caption and links to the files."""
    title = f"{shown.name}: {shown.title}" if shown.name else shown.title
    panels = picture.panels
    kind = "single" if len(panels) == 1 else "three" if len(picture.rows[0]) == 3 else "pairs"
    places = ""
    for i, panel in enumerate(panels):
        own = f", {panel.title}" if panel.title else ""
        words = f"{title}: {panel.y.label} against {panel.x.label}{own}"
        label = escape(re.sub("</?(i|sub|sup)>", "", words))
        square = " square" if panel.field else ""
        places += f'<div class="plot{square}" id="{panel_id(shown.key, i)}" role="img" '
        places += f'aria-label="{label}"></div>\n'
    links = f'<p class="files">{_links(files)}</p>\n' if files else ""
    return (
        f'<figure id="{shown.key}">\n<h3>{title}</h3>\n'
        f'<div class="panels {kind}">\n{places}</div>\n{legend(picture)}'
        f"<figcaption>{shown.text}</figcaption>\n{links}</figure>\n"
    )


def _links(files: Mapping[str, str]) -> str:
    return " · ".join(
        f'<a href="{escape(place)}">{escape(name)}</a>' for name, place in files.items()
    )


def computed(facts: Mapping[str, Any]) -> str:
    """A section on how the numbers were computed: what was left out, settings and versions."""
    parts = [f"<p>{escape(str(facts['elided']))}</p>\n"] if facts.get("elided") else []
    for key, title in (("settings", "Settings"), ("versions", "Versions")):
        if facts.get(key):
            parts.append(_scrolling(title, _facts(title, facts[key])))
    return section("computed", "How this was computed", "".join(parts)) if parts else ""


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    """A small table of names and values; large numbers have commas."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_text(value))}</td></tr>\n"
        for name, value in facts.items()
    )
    return (
        f'<table class="facts">\n<caption>{title}</caption>\n<tbody>\n{rows}</tbody>\n</table>\n'
    )


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _scrolling(label: str, table: str) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    return f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">\n{table}</div>\n'


def downloads(files: Mapping[str, str]) -> str:
    """Links to everything beside the page."""
    kinds = (("Pictures", ("pdf", "png")), ("Tables", ("csv",)))
    chosen = {
        title: {n: p for n, p in sorted(files.items()) if n.rpartition(".")[2] in ends}
        for title, ends in kinds
    }
    lines = "".join(
        f'<p class="files">{title}: {_links(some)}</p>\n' for title, some in chosen.items() if some
    )
    return section("files", "Files", lines) if lines else ""
