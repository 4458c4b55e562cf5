"""One page of an audit that reads nothing else."""

import base64
import html
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limitlaw.torch.table import Audit

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.15rem .8rem;border-bottom:1px solid #ddd}
tr.differs td{background:#fbe3d6}img{max-width:100%}"""


def page(audit: "Audit", title: str) -> str:
    """Findings, picture and table."""
    picture = io.BytesIO()
    audit.plot().savefig(picture, format="png", dpi=110)
    image = base64.b64encode(picture.getvalue()).decode()
    summary = f"{len(audit.findings)} findings" if audit.findings else "Nothing was found that is not as it should be."
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in audit.program.notes)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>"
        f"<p>{summary}</p>{_list(audit)}"
        f'<img alt="prediction and measurement by layer" src="data:image/png;base64,{image}">'
        f"{audit.html_table()}{f'<h2>Notes</h2><ul>{notes}</ul>' if notes else ''}</body></html>\n"
    )


def _list(audit: "Audit") -> str:
    return f"<ul>{''.join(f'<li>{html.escape(finding)}</li>' for finding in audit.findings)}</ul>"
