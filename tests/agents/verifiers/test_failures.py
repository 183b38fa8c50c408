"""Claims about environments of verifiers that fail: each way has its outcome, none a reward, no sibling suffers."""

from pathlib import Path

import orjson
from tests.agents.verifiers.conftest import block, needs_verifiers, read_lines, run_ours, running_with

from paddock.testing.upstream import ErrorStatus, ScriptedAnswer, ScriptedUpstream
from paddock.types import JsonObject

pytestmark = needs_verifiers
CASES = {
    "setup_raises": ("row", "task_setup"),
    "setup_exits": ("infra", "died"),
    "setup_hangs": ("infra", "timeout"),
    "stop_raises": ("verifier", "task_error"),
    "reward_raises": ("verifier", "task_error"),
    "reward_nan": ("verifier", "reward_not_finite"),
    "reward_text": ("verifier", "task_error"),
    "reward_hangs": ("verifier", "timeout"),
    "reward_blocks": ("verifier", "timeout"),
    "reward_exits": ("verifier", "died"),
    "none": ("completed", None),
    "leaves_program": ("completed", None),
}
"""Outcome and kind by cue."""


def write_rows(folder: Path, rows: list[JsonObject]) -> Path:
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps({"environment": "faulty_task", **row}) + b"\n" for row in rows))
    return path


async def test_each_fault_has_its_outcome(tmp_path: Path) -> None:
    rows: list[JsonObject] = [
        {"id": cue, "task_data": {"prompt": "Do it.", "cue": cue, "mark": "31557601"}} for cue in CASES
    ]
    rows += [{"id": "wrong_data", "task_data": {"prompt": "Do it."}}]
    rows += [{"id": "other", "environment": "graded_text", "task_data": {}}]
    config = block(
        "faulty_task", {"agent": {"harness": {"id": "local_chat"}}}, rollout_timeout_s=40, verify_timeout_s=8
    )
    async with ScriptedUpstream(ScriptedAnswer("DONE")) as upstream:
        rollouts = await run_ours(tmp_path, config, write_rows(tmp_path, rows), upstream.url)
    failed = {
        failure["row_name"]: (failure["outcome"], failure["kind"])
        for failure in read_lines(tmp_path / "ours/failures.jsonl")
    }
    found = {rollout["id"]: (rollout["rollout"]["outcome"], None) for rollout in rollouts}
    ends = {**CASES, "wrong_data": ("row", "task_invalid"), "other": ("row", "other_environment")}
    assert {**found, **failed} == ends
    assert {rollout["id"]: rollout["reward"] for rollout in rollouts} == {"none": 1.0, "leaves_program": 1.0}
    assert not running_with(b"31557601")


async def test_a_model_that_fails_is_infra_whatever_the_environment_makes_of_it(tmp_path: Path) -> None:
    path = write_rows(tmp_path, [{"id": "one", "task_data": {"prompt": "Do it.", "cue": "none"}}])
    config = block("faulty_task", {"agent": {"harness": {"id": "local_chat"}}})
    once = "policy_model.models_servers.openai.attempts=1"
    async with ScriptedUpstream(ScriptedAnswer("DONE"), faults=lambda nth: ErrorStatus(500)) as upstream:
        assert not await run_ours(tmp_path, config, path, upstream.url, once)
    (failure,) = read_lines(tmp_path / "ours/failures.jsonl")
    assert (failure["outcome"], failure["kind"], failure["stage"]) == ("infra", "model_status", "model")
