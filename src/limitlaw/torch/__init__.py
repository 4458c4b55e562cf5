"""PyTorch modules as programs: `program` converts and replays, `replay` compares again; needs limitlaw[torch].

Nothing else in limitlaw imports this folder. Data flows one way: exporting → tracing (rules, making) → layouts →
writing → replay.
"""

from limitlaw.torch.converted import Converted, Labelled, Replayed, replay
from limitlaw.torch.converting import program
from limitlaw.torch.errors import ConversionError, ReplayError

__all__ = ["ConversionError", "Converted", "Labelled", "ReplayError", "Replayed", "program", "replay"]
