"""The walk of docs/architecture.md: which files a call passes through, station by station, in the
order in which it first comes to them, with the function it comes to. Generated from a traced run:

    python tests/walk.py        writes it into the page

and `tests/test_walk.py` compares the page with what the code does.
"""

import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "architecture.md"
START, END = "<!-- walk: written by tests/walk.py -->", "<!-- end of walk -->"
BLOCK = re.compile(f"{re.escape(START)}\n(.*?){re.escape(END)}", re.DOTALL)

# each call in a fresh process, so that none finds what another has compiled
CALLS = {
    "ll.limit(y[0])": "ll.limit(y[0])",
    "ll.finite(y[0], 64, 100, key)": "ll.finite(y[0], 64, 100, jax.random.key(0))",
    "ll.kernel(deep)": (
        "ll.kernel(ll.repeat(lambda x: ll.Matrix() @ ll.relu(x), ll.initial(2), 3))"
    ),
    'll.trace(net, ["variance"], width=64)': (
        'll.trace(ll.transformer(ll.initial((2,)), 2, 1), ["variance"], 64, 100)'
    ),
}
# what is asked of networks, then the stations; the tools that every station uses are left out
STATIONS = {"depth": "depth", "core": "core program", "engines": "engine", "laws": "law"}

TRACED = """
import os, sys
import jax
import limitlaw as ll

ours = os.path.dirname(ll.__file__) + os.sep
y = ll.attention(ll.relu(ll.matrices(4) @ ll.initial()), heads=2)
seen = {}

def profile(frame, event, _):
    here, name = frame.f_code.co_filename, frame.f_code.co_qualname
    if event == "call" and here.startswith(ours) and "<" not in name:
        made = name.removesuffix(".__init__").removesuffix(".__post_init__")
        seen.setdefault(here.removeprefix(ours), made)

sys.setprofile(profile)
%s
sys.setprofile(None)
for file, name in seen.items():
    print(file, name)
"""


def passed(call: str) -> list[tuple[str, str]]:
    """The files a call comes to, in that order, and the function that is called there first."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED % call], capture_output=True, check=True, text=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(file, name) for file, name in lines if file.split("/")[0] in STATIONS]


def stations(call: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The same, by station: each once, in the order in which they are come to."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file, name in passed(call):
        found.setdefault(STATIONS[file.split("/")[0]], []).append((file, name))
    return list(found.items())


Walks = dict[str, list[tuple[str, list[tuple[str, str]]]]]


def written(walks: Walks) -> str:
    """All walks, as Markdown."""
    lines = []
    for title, found in walks.items():
        lines += [f"**`{title}`**", ""]
        for station, files in found:
            names = " → ".join(f"`{file}` {name}" for file, name in files)
            lines.append(f"- *{station}*: {names}")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    new = written({title: stations(call) for title, call in CALLS.items()})
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda _: f"{START}\n{new}{END}", page), encoding="utf-8")
