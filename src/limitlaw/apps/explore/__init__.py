"""The explorer: one page on loopback that shows the law of an attention layer while
its settings are moved.

`choice` says what can be chosen, `programs` what it stands for, `answers` what is computed of it,
`budget` what would take too long, `worker` in which order, `server` who may ask. No request leaves
the machine.
"""

from limitlaw.apps.explore.choice import Choice
from limitlaw.apps.explore.server import Explorer

__all__ = ["Choice", "Explorer"]
