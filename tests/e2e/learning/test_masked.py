"""The claim that failures that are nobody's doing cost rollouts and nothing else: a run in which a fifth of them fail
learns as one in which none does, and none of them enters a baseline.
"""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from tests.e2e.learning import runs
from tests.e2e.learning.faulty import SHARE

from paddock.types import REWARDED

STEPS = 100
WORSE_AT_MOST = 0.2
"""Mean reward of the last steps, beside that of a run without failures."""
SERVER = "env.nemo_gym.pivot.resources_servers"
FAULTY = (
    f"~{SERVER}.pivot",
    f"+{SERVER}={{tests.e2e.learning.faulty:FaultyPivot: {{comparator: compat}}}}",
    "+eval.max_attempts=2",
    "+eval.retry_wait_s=0",
)
pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(3 * runs.RUN_S)]


def test_a_run_with_failures_learns_as_one_without(small_task: Path, tmp_path: Path) -> None:
    own = (*runs.SMALL, *runs.data(small_task), f"grpo.max_num_steps={STEPS}")
    runs.train(tmp_path / "whole", *own)
    batches = tmp_path / "batches.jsonl"
    runs.train(tmp_path / "faulty", *own, *FAULTY, record=batches)
    assert runs.rise(tmp_path / "faulty") < 0.01, runs.rewards(tmp_path / "faulty")
    last = {name: runs.mean(runs.rewards(tmp_path / name)[-runs.ENDS :]) for name in ("whole", "faulty")}
    assert last["faulty"] >= last["whole"] - WORSE_AT_MOST, last
    require_none_compared(batches)


def require_none_compared(batches: Path) -> None:
    """Failed members have no reward and no row, and others' advantages are those of a group without them."""
    outcomes: list[str] = []
    for batch in map(json.loads, batches.read_text().splitlines()):
        masked = {(one["group"], one["member"], one["reason"]) for one in batch["masked"]}
        rows = {(row["group"], row["member"]): row["advantages"] for row in batch["rows"]}
        assert len(rows) == len(batch["rows"])
        for group in batch["groups"]:
            outcomes += [member["outcome"] for member in group["members"]]
            judged = [member for member in group["members"] if member["outcome"] in REWARDED]
            for member in group["members"]:
                place = (group["id"], member["nth"])
                if member not in judged:
                    assert member["reward"] is None
                    assert (*place, member["outcome"]) in masked
                    assert place not in rows
                else:
                    (found,) = rows[place]
                    assert found == pytest.approx(advantage(member, judged), abs=1e-9)
    for kind in ("infra", "verifier"):
        assert outcomes.count(kind) / len(outcomes) == pytest.approx(SHARE / 2, abs=0.05)


def advantage(member: Any, judged: list[Any]) -> float:
    """As the demonstration's config says: over the mean of all, by their standard deviation."""
    rewards = [one["reward"] for one in judged]
    spread = stdev(rewards)
    return 0.0 if spread == 0 else (member["reward"] - fmean(rewards)) / (spread + 1e-6)
