"""Paddock: environments for reinforcement learning on software engineering.

Resources servers hold a task's world and its verdict, agents drive harnesses, model servers record every token.
`paddock.connect(config_or_url)` is the door for notebooks and scripts; `paddock.runs("runs/*")` and
`paddock.show(run, row)` look at what was run; `paddock.open_rollouts(config)` is the door for trainers; everything else
has a module of its own. Importing this package imports nothing heavy: names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.rollouts import (
        Completion,
        EngineFunction,
        RolloutClient,
        RolloutGroup,
        RolloutOptions,
        TrainingRollout,
        open_rollouts,
    )
    from paddock.server.connect import connect
    from paddock.viewer.tables import runs, show

__version__ = "0.1.0"
__all__ = [
    "Completion",
    "EngineFunction",
    "RolloutClient",
    "RolloutGroup",
    "RolloutOptions",
    "TrainingRollout",
    "__version__",
    "connect",
    "open_rollouts",
    "runs",
    "show",
]
_ELSEWHERE = {"connect": "paddock.server.connect", "runs": "paddock.viewer.tables", "show": "paddock.viewer.tables"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "paddock.rollouts")), name)
    raise AttributeError(f"module 'paddock' has no attribute {name!r}")
