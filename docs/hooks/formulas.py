"""Formulas become MathML when the site is built: browsers draw it themselves,
with no script or font from elsewhere.
"""

import re
from typing import Any

DISPLAY = re.compile(r"^\$\$\n(.*?)^\$\$$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`(.+?)`\$")
# not to be touched
CODE = re.compile(r"(```.*?```|`[^`]+`|\]\([^)]*\)|<math.*?</math>)", re.DOTALL)
RAISED = re.compile(r"(?<=[\w)\]>°])([\^_])(?:\{([^{}]*)\}|([A-Za-z0-9αβ]{1,2})(?![A-Za-z0-9αβ]))")
WITH_SCRIPTS = ("theory.md",)  # pages whose text has x_i and x^j in it


def rendered(markdown: str) -> str:
    """`$$ … $$` on lines of their own, and $`…`$ inside a line, as GitHub writes them."""
    from latex2mathml.converter import convert

    def display(formula: re.Match[str]) -> str:
        return (
            f'<div class="formula">{convert(" ".join(formula[1].split()), display="block")}</div>'
        )

    def inline(formula: re.Match[str]) -> str:
        # at the start of a line <math> alone would be a paragraph
        return f"<span>{convert(formula[1])}</span>"

    return INLINE.sub(inline, DISPLAY.sub(display, markdown))


def with_scripts(markdown: str) -> str:
    """x_i, x^{-1} and the like of plain text as subscripts and superscripts,
    the innermost first.
    """

    def raised(text: str) -> str:
        while (found := RAISED.sub(_script, text)) != text:
            text = found
        return text

    parts = CODE.split(markdown)
    return "".join(part if i % 2 else raised(part) for i, part in enumerate(parts))


def _script(match: re.Match[str]) -> str:
    tag = "sup" if match[1] == "^" else "sub"
    return f"<{tag}>{match[2] or match[3]}</{tag}>"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The hook of MkDocs."""
    drawn = rendered(markdown)
    return with_scripts(drawn) if page.file.src_path in WITH_SCRIPTS else drawn
