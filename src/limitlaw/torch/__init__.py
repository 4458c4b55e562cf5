"""PyTorch modules as programs: `program` converts and replays, `audit` measures, `check` only
looks (limitlaw[torch]).

Nothing else in limitlaw imports this folder, but for the command `limitlaw audit`. Data flows one
way: exporting → tracing (rules, making) → layouts → writing → replay → audit.
"""

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(
        "limitlaw.torch needs PyTorch: pip install 'limitlaw[torch]'", name="torch"
    )

from limitlaw.torch.auditing import audit
from limitlaw.torch.converted import Converted, Replayed, replay
from limitlaw.torch.converted import LabelledValue as Labelled
from limitlaw.torch.converting import program
from limitlaw.torch.errors import ConversionError, ReplayError
from limitlaw.torch.growing import Growth, Widths
from limitlaw.torch.references import check
from limitlaw.torch.table import Audit
from limitlaw.torch.table import AuditRow as Row

__all__ = [
    "Audit",
    "ConversionError",
    "Converted",
    "Growth",
    "Labelled",
    "ReplayError",
    "Replayed",
    "Row",
    "Widths",
    "audit",
    "check",
    "program",
    "replay",
]
