"""PyTorch modules as programs: `program` converts and replays, `audit` measures, `check` only
looks, `assert_initialised` is that for tests (limitlaw[torch]).

Nothing else in limitlaw imports this folder, but for the command `limitlaw audit`. Data flows one
way: exporting → tracing (rules, making) → layouts → writing → replay → audit.
"""

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(
        "limitlaw.torch needs PyTorch: pip install 'limitlaw[torch]'", name="torch"
    )

from limitlaw.torch.auditing import audit
from limitlaw.torch.checking import QuickAudit, assert_initialised, check, quick_audit
from limitlaw.torch.converted import Converted, Replayed, replay
from limitlaw.torch.converted import LabelledValue as Labelled
from limitlaw.torch.converting import program
from limitlaw.torch.errors import ConversionError, ReplayError
from limitlaw.torch.finding import AuditFinding as Finding
from limitlaw.torch.growing import Growth, Widths
from limitlaw.torch.reading.anatomy import ModuleReading as Reading
from limitlaw.torch.reading.anatomy import read
from limitlaw.torch.recipes.recipe import NAMED, Std, from_config
from limitlaw.torch.recipes.recipe import InitRecipe as Recipe
from limitlaw.torch.table import Audit
from limitlaw.torch.table import AuditRow as Row

__all__ = [
    "NAMED",
    "Audit",
    "ConversionError",
    "Converted",
    "Finding",
    "Growth",
    "Labelled",
    "QuickAudit",
    "Reading",
    "Recipe",
    "ReplayError",
    "Replayed",
    "Row",
    "Std",
    "Widths",
    "assert_initialised",
    "audit",
    "check",
    "from_config",
    "program",
    "quick_audit",
    "read",
    "replay",
]
