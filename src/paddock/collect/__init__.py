"""Rows in, rollouts out: a collection that loses nothing, ends, and never turns a failure into a number.

    plan = make_plan(config, EvalSettings(repeats=4))
    collected = await evaluate(plan, Path("runs/mine"))

Files   see `folder`. Outcomes: only `completed` and `truncated` carry a reward and enter a mean.
"""

from paddock.collect.crew import check_servers
from paddock.collect.evaluate import evaluate
from paddock.collect.identity import read_identity
from paddock.collect.locations import ServerLocations
from paddock.collect.plan import Plan, PlannedGroup, make_plan, row_problems
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.run import CollectionResult, Run, open_run, read_summary
from paddock.collect.settings import EvalSettings, Selection

__all__ = [
    "CollectionResult",
    "EvalSettings",
    "FailedAttempt",
    "Plan",
    "PlannedGroup",
    "RolloutResult",
    "Run",
    "Selection",
    "ServerLocations",
    "check_servers",
    "evaluate",
    "make_plan",
    "open_run",
    "read_identity",
    "read_summary",
    "row_problems",
]
