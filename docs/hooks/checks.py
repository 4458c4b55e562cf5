"""What must hold of the built site: every public name has its entry,
and nothing is fetched from elsewhere.
"""

import importlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOMS = (
    "limitlaw",
    "limitlaw.nn",
    "limitlaw.laws",
    "limitlaw.divergence",
    "limitlaw.depth",
    "limitlaw.torch",
)
FETCHING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
NOT_FETCHED = ("canonical", "prev", "next", "alternate")  # links that are only followed


class _Fetched(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of what is fetched, and anchors."""
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        address = given.get(FETCHING.get(tag, ""))
        if address and given.get("rel") not in NOT_FETCHED:
            self.addresses.append(address)


def public_names() -> list[str]:
    """Every name that a user may import; rooms have pages instead."""
    names = (f"{room}.{name}" for room in ROOMS for name in importlib.import_module(room).__all__)
    return [name for name in names if name not in ROOMS]


def problems(site: Path) -> list[str]:
    """What is wrong with a built site, a line each."""
    found, ids = [], set()
    for path in sorted(site.rglob("*.html")):
        page = _Fetched()
        page.feed(path.read_text(encoding="utf-8"))
        ids |= page.ids
        found += [
            f"{path.name} fetches {a}" for a in page.addresses if re.match(r"(https?:)?//", a)
        ]
    for path in sorted(site.rglob("*.css")):
        found += [
            f"{path.name} fetches {a}"
            for a in re.findall(r"url\([\"']?((?:https?:)?//[^)]+)", path.read_text())
        ]
    last = {
        identifier.rpartition(".")[2] for identifier in ids if identifier.startswith("limitlaw.")
    }
    return found + [
        f"{name} is in no reference"
        for name in public_names()
        if name.rpartition(".")[2] not in last
    ]


def on_post_build(config: Any, **_: Any) -> None:
    """The hook of MkDocs: a problem stops the build."""
    from mkdocs.exceptions import PluginError

    found = problems(Path(config.site_dir))
    if found:
        raise PluginError("\n".join(found))
