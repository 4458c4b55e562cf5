"""Formulas become MathML when the site is built: browsers draw it themselves, without a script or a font from elsewhere."""

import re
from typing import Any

DISPLAY = re.compile(r"^\$\$\n(.*?)^\$\$$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`(.+?)`\$")


def rendered(markdown: str) -> str:
    """`$$ … $$` on lines of their own, and $`…`$ inside a line, as GitHub writes them."""
    from latex2mathml.converter import convert

    def display(formula: re.Match[str]) -> str:
        return f'<div class="formula">{convert(" ".join(formula[1].split()), display="block")}</div>'

    return INLINE.sub(lambda formula: convert(formula[1]), DISPLAY.sub(display, markdown))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The hook of MkDocs."""
    return rendered(markdown)
