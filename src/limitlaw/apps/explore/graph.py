"""The graph of a program as SVG: a box for each instruction, from the leaves at the top to the
output below.

Rows are longest paths to the output; an edge that crosses rows has a bend in each; boxes of a row
are in the order of the mean place of their neighbours (Sugiyama, Tagawa & Toda 1981).
"""

import dataclasses
import statistics
from html import escape

from limitlaw.language.printing import Names, instruction
from limitlaw.language.tree import Value
from limitlaw.language.values import Wide

BOX_WIDTH, BOX_HEIGHT = 176, 52  # size of a box
ACROSS, DOWN = 16, 34  # between boxes
BEND = 26  # room for an edge that passes a row
SWEEPS = 8
# a line that would not fit into its box is drawn narrower
SQUEEZED = f' textLength="{BOX_WIDTH - 12}" lengthAdjust="spacingAndGlyphs"'


@dataclasses.dataclass(eq=False)
class Box:
    """A box, or (without lines) the bend of an edge."""

    row: int
    lines: tuple[str, ...] = ()
    vector: bool = True
    above: "list[Box]" = dataclasses.field(default_factory=list)
    below: "list[Box]" = dataclasses.field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> int:
        return BOX_WIDTH if self.lines else BEND

    @property
    def top(self) -> int:
        return self.row * (BOX_HEIGHT + DOWN)


def svg(output: Value) -> str:
    """The graph of the program of a value; its CSS classes are `vector`, `numbers` and `edge`."""
    rows = _placed(_rows(output))
    width = max(sum(n.width + ACROSS for n in row) for row in rows) + ACROSS
    height = len(rows) * (BOX_HEIGHT + DOWN) - DOWN + 2
    boxes = [node for row in rows for node in row]
    drawn = "".join(_edge(a, b) for a in boxes for b in a.below) + "".join(
        _box(n) for n in boxes if n.lines
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-width / 2:g} -1 {width:g} {height}" '
        f'width="{width:g}" '
        f'height="{height}" role="img" aria-label="Graph of the program, which is listed '
        f'below">{drawn}</svg>'
    )


def _rows(output: Value) -> list[list[Box]]:
    """The boxes of instructions and the bends of edges, row by row."""
    names = Names((output,))
    to_output: dict[Value, int] = {output: 0}
    for value in reversed(names.listed):
        for source in value.op.inputs:
            if source in names.number:
                to_output[source] = max(to_output.get(source, 0), to_output[value] + 1)
    last = max(to_output.values())
    nodes = {}
    for value in names.listed:
        kind, formula = instruction(value, names)
        lines = f"{names[value]}  {kind}", formula, _shape(value)
        nodes[value] = Box(last - to_output[value], lines, isinstance(value, Wide))
    rows: list[list[Box]] = [[] for _ in range(last + 1)]
    for value, node in nodes.items():
        rows[node.row].append(node)
        for source in dict.fromkeys(s for s in value.op.inputs if s in nodes):
            _join(nodes[source], node, rows)
    return rows


def _shape(value: Value) -> str:
    shape = " × ".join(map(str, value.shape)) or "one"
    return f"{shape} in R^{value.dim}" if isinstance(value, Wide) else f"{shape} numbers"


def _join(upper: Box, lower: Box, rows: list[list[Box]]) -> None:
    """Add an edge, with a bend in each row between."""
    for row in range(upper.row + 1, lower.row):
        bend = Box(row)
        rows[row].append(bend)
        upper.below.append(bend)
        bend.above.append(upper)
        upper = bend
    upper.below.append(lower)
    lower.above.append(upper)


def _placed(rows: list[list[Box]]) -> list[list[Box]]:
    """The rows, with boxes in the order of the mean place of neighbours above and below,
    in turn.
    """
    for row in rows:
        _spread(row)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            for node in row:
                beside = node.above if sweep % 2 == 0 else node.below
                node.x = statistics.fmean([n.x for n in beside] or [node.x])
            row.sort(key=lambda node: node.x)
            _spread(row)
    return rows


def _spread(row: list[Box]) -> None:
    """Place the boxes of a row side by side, centred at 0."""
    x = -sum(node.width + ACROSS for node in row) / 2
    for node in row:
        node.x = x + (node.width + ACROSS) / 2
        x += node.width + ACROSS


def _edge(a: Box, b: Box) -> str:
    start, end = a.top + BOX_HEIGHT, b.top
    middle = (start + end) / 2
    straight = "" if a.lines else f"M{a.x:g} {a.top}V{start}"
    return (
        f'<path class="edge" d="{straight}M{a.x:g} {start}C{a.x:g} {middle:g} {b.x:g} {middle:g} '
        f'{b.x:g} {end}"/>'
    )


def _box(node: Box) -> str:
    left = node.x - BOX_WIDTH / 2
    texts = "".join(
        f'<text x="{node.x:g}" y="{node.top + 16 + 14 * i}"{SQUEEZED * (len(line) > 27)}>'
        f"{escape(line)}</text>"
        for i, line in enumerate(node.lines)
    )
    kind = "vector" if node.vector else "numbers"
    box = (
        f'<rect x="{left:g}" y="{node.top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="{4 if node.vector else 16}"/>'
    )
    return f'<g class="{kind}">{box}{texts}</g>'
