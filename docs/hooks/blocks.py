"""Code of the pages is run when the site is built: what it prints,
its last value and its pictures stand below it.

A page is one session. A block that raises stops the build.
The tests run the same blocks without the site.
"""

import ast
import base64
import contextlib
import io
import re
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
# its blocks are files of an example, which tests/paper/test_catalogue.py runs
SKIPPED = ("architecture.md",)


class Session:
    """The names of a page, and what its blocks leave behind."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": page}
        self.figure: Any = None  # that a block ended with

    def run(self, code: str) -> str:
        """What a block prints, with the repr of its last expression, as a notebook shows it."""
        tree = ast.parse(code, self.page)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, self.page, "exec"), self.names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), self.page, "eval"), self.names)
                self.figure = (
                    value if hasattr(value, "savefig") else getattr(value, "figure", None)
                )
                if value is not None and self.figure is None:
                    print(repr(value))
        return printed.getvalue()


def pictures(last: Any = None) -> list[str]:
    """The figure that a block ended with, and those that it left open,
    as images inside the page.
    """
    import matplotlib.pyplot as plt

    figures = [plt.figure(number) for number in plt.get_fignums()]
    shown = figures if last is None or last in figures else [last, *figures]
    plt.close("all")
    return [
        f"![](data:image/png;base64,{base64.b64encode(_png(figure)).decode()})" for figure in shown
    ]


def _png(figure: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110, bbox_inches="tight")
    return data.getvalue()


def executed(markdown: str, page: str) -> str:
    """The page with the outcome of each block below it."""
    session = Session(page)

    def with_outcome(block: re.Match[str]) -> str:
        printed = session.run(block[1])
        shown = f"\n```text\n{printed.rstrip()}\n```\n" if printed.strip() else ""
        return "\n".join([f"```python\n{block[1]}```\n", shown, *pictures(session.figure), ""])

    return BLOCK.sub(with_outcome, markdown)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The hook of MkDocs."""
    import matplotlib

    matplotlib.use("agg")
    path = page.file.src_path
    return markdown if path in SKIPPED else executed(markdown, path)
