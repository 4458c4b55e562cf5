"""One page of an audit that reads nothing else."""

import base64
import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limitlaw.torch.showing import Table

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:light-dark(#222,#e9eaeb);background:light-dark(#fff,#15181b)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.15rem .8rem;border-bottom:1px solid light-dark(#ddd,#3a4046)}
tr.differs td{background:light-dark(#fbe3d6,#5a2f16)}
img{max-width:100%;background:#fff;border-radius:4px}.wide{overflow-x:auto}"""


def page(table: "Table", title: str) -> str:
    """Findings, picture and table."""
    picture = io.BytesIO()
    table.plot().savefig(picture, format="png", dpi=110)
    image = base64.b64encode(picture.getvalue()).decode()
    summary = (
        f"{len(table.findings)} finding{'s' * (len(table.findings) > 1)}"
        if table.findings
        else "Nothing was found that is not as it should be."
    )
    items = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    notes = f"<h2>Notes</h2><ul>{items}</ul>" if items else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>"
        f"<p>{summary}</p>{_list(table)}"
        f'<img alt="prediction and measurement by layer" src="data:image/png;base64,{image}">'
        f'<div class="wide">{table.html_table()}</div>{notes}'
        "</body></html>\n"
    )


def _list(table: "Table") -> str:
    return f"<ul>{''.join(f'<li>{html.escape(finding)}</li>' for finding in table.findings)}</ul>"
