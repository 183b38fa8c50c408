"""Rollouts for trainers: rows go in, groups of rewarded rollouts with their exact samples come out.

`open_rollouts` starts a config's environments and gives a `RolloutClient`; `RolloutGroup` and `TrainingRollout` are
what it returns. `runner` is what every trainer's rollouts go through. The engine may be a function of the trainer's
(`Completion`, `EngineFunction`).
"""

from paddock.rollouts.client import GroupStream, RolloutClient, open_rollouts
from paddock.rollouts.options import RolloutOptions
from paddock.rollouts.records import Mask, RolloutGroup, TrainingRollout
from paddock.server.exact.functions import Completion, EngineFunction

__all__ = [
    "Completion",
    "EngineFunction",
    "GroupStream",
    "Mask",
    "RolloutClient",
    "RolloutGroup",
    "RolloutOptions",
    "TrainingRollout",
    "open_rollouts",
]
