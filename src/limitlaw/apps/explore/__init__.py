"""The explorer: one page on loopback that shows the law of an attention layer while its settings
are moved.

`choice` has the settings, `programs` the programs that they stand for, `answers` what is computed
of these, `budget` what would take too long, `worker` the order, `server` who may ask. No request
leaves the machine.
"""

from limitlaw.apps.explore.choice import Choice
from limitlaw.apps.explore.server import Explorer

__all__ = ["Choice", "Explorer"]
