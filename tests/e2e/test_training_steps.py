"""The claim that a judge's scores of single steps reach the loss: SWE rollouts of a tiny model in real sandboxes, each
turn a sample of its own, rewarded for itself and compared with the same step of the group's other rollouts.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest
import yaml
from tests.e2e.learning import runs, swe, swe_run
from tests.support.real_vllm import tiny_model

pytestmark = [pytest.mark.sandbox, pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(2 * runs.RUN_S)]
COEFFICIENT = 0.5
Place = tuple[int, int]
"""Group and member."""


def config(folder: Path, model: Path) -> dict[str, Any]:
    tree = swe_run.config(folder, model, steps=2, rerolls=0)
    tree["grpo"] |= {"normalize_rewards": False, "use_leave_one_out_baseline": False}
    tree["paddock"]["groups"] |= {"sample_mode": "dynamic_history", "step_credit": True}
    servers = tree["env"]["nemo_gym"]
    judges = {"type": "models_servers", "name": "judge"}
    votes: dict[str, Any] = {"genrm_model_server": judges, "state_dir": str(folder / "state")}
    servers["judge"] = {"models_servers": {"paddock.testing.judges:ScriptedJudge": {"prefers": "hash"}}}
    servers["step_judge"] = {"resources_servers": {"genrm": votes}}
    servers["agent"]["agents"]["swe"]["step_rewards"] = {
        "server": {"type": "resources_servers", "name": "step_judge"},
        "coefficient": COEFFICIENT,
        "outcome_values": {"failed": -1.0, "passed": 1.0},
    }
    return tree


def test_each_step_is_trained_on_with_its_own_credit(tmp_path: Path) -> None:
    model = tiny_model(swe.HOME, runs.vllm_python(), runs.ROOT, harness="codeact")
    rows = swe.built(swe_run.FIRST, swe_run.SECOND)
    (tmp_path / swe_run.ROWS).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    path, batches = tmp_path / "swe.yaml", tmp_path / "batches.jsonl"
    path.write_text(yaml.safe_dump(config(tmp_path, model)))
    runs.train(tmp_path / "run", str(path), record=batches)
    judged = steps_of(tmp_path / "run")
    trained = [row for batch in lines(batches) for row in batch["rows"]]
    by_member: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for row in trained:
        by_member[row["group"], row["member"]].append(row)
    assert len(by_member) >= 2 * swe_run.MEMBERS - 1
    assert len({reward for place in by_member for reward in judged[place]}) > 2
    for place, found in by_member.items():
        found.sort(key=lambda row: row["sample"])
        rewards = judged[place]
        assert [row["reward"] for row in found] == pytest.approx(rewards, abs=1e-9)
        for nth, row in enumerate(found):
            others = [own[nth] for (group, _), own in judged.items() if group == place[0] and len(own) > nth]
            alone = len(others) == 1
            advantage = 0.0 if alone else rewards[nth] - fmean(others)
            assert row["advantages"] == pytest.approx([advantage], abs=1e-6)


def steps_of(out: Path) -> dict[Place, list[float]]:
    """What each step of a rollout is worth, in order: computed from the stored scores alone."""
    groups = {(told["row"], told["epoch"]): told["id"] for told in lines(out / "groups.jsonl")}
    found = {}
    for rollout in lines(out / "rollouts.jsonl"):
        outcome, told = rollout["reward_components"]["outcome"], rollout["step_rewards"]["scores"]
        there = [step["score"] for step in told if step["score"] is not None]
        scores = [fmean(there) if step["score"] is None else step["score"] for step in told]
        group = groups[rollout["_ng_task_index"], rollout["_paddock_epoch"]]
        found[group, rollout["_ng_rollout_index"]] = [outcome + COEFFICIENT * score for score in scores]
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
