"""How a run fared with rows whose rollouts last long, beside the others: read from its journals.

Trained  groups that a step was trained on, by the ids in `metrics.jsonl`; what each was is in `groups.jsonl`.
Work     the seconds of a rollout without those in which it waits for a sandbox and for its grading: an asynchronous
         loop starts as many rollouts as its ages allow, and whatever their rows are, they queue for the machine.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from tests.e2e.learning import runs


class SlowRowFigures(NamedTuple):
    """Slow rows beside the others."""

    times_longer: float
    """The median work of slow rows' rollouts over the median of the others'."""
    share_trained: float
    """Of all groups that were trained on, those of slow rows."""
    reward_slow: float
    """The mean reward of slow rows in the groups that were trained on last."""
    reward_others: float
    age: float
    """The largest age of a trained token, in versions of the weights."""


def slow_row_figures(out: Path, slow: Collection[int], *, last_steps: int) -> SlowRowFigures:
    """`slow`: indices of the slow rows. `last_steps`: how many steps at the end rewards are compared of."""
    groups = {line["id"]: line for line in _lines(out / "groups.jsonl")}
    steps = runs.lines(out)
    trained = [groups[nth] for step in steps for nth in step["groups"]]
    last = [groups[nth] for step in steps[-last_steps:] for nth in step["groups"]]
    return SlowRowFigures(
        times_longer=_work_s(out, slow, True) / _work_s(out, slow, False),
        share_trained=fmean(group["row"] in slow for group in trained),
        reward_slow=_reward(last, slow, True),
        reward_others=_reward(last, slow, False),
        age=max(step["metrics"]["train/staleness/max"] for step in steps),
    )


def _work_s(out: Path, slow: Collection[int], wanted: bool) -> float:
    rollouts = (line for line in _lines(out / "rollouts.jsonl") if (line["_ng_task_index"] in slow) is wanted)
    timings = (line["rollout"]["timing"] for line in rollouts)
    return median(float(timing["total_s"] - timing["sandbox_s"] - timing["verify_wait_s"]) for timing in timings)


def _reward(groups: Sequence[dict[str, Any]], slow: Collection[int], wanted: bool) -> float:
    chosen = [group for group in groups if (group["row"] in slow) is wanted]
    return fmean(reward for group in chosen for reward in group["rewards"] if reward is not None)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
