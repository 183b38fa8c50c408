"""Claims about the wire: codecs are inverses, and what breaks them has an owner."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from paddock.errors import BugError, RequestError, RowError, VerifierError
from paddock.http import RUN, SEED, VERIFY, VerifyRequest, read_row, rollout_from_wire
from paddock.types import Failure, Rollout, Row, Stamp, Timing, Turn, Usage, Verdict

ROW = Row(
    responses_create_params={"input": "hi"},
    stamp=Stamp(group_id=2, member=1, attempt=0, run_id="run", group_size=4),
    task={"expected_action": {"type": "message", "content": "x"}, "uuid": "u"},
)
VERDICT = Verdict(
    reward=0.5, reason="match", comparator="semantic", metrics={"matched": 1.0}, extras={"category": "a sentence"}
)
TURN = Turn(
    id="turn_1",
    parent=None,
    prompt_ids=[1, 2],
    sampled_ids=[3],
    log_probs=[-0.5],
    weight_version="7",
    finish_reason="stop",
    request_hash="00",
    output=[{"type": "message"}],
    usage=Usage(input_tokens=2, output_tokens=1),
)


def codec(given: Callable[..., Any] | None) -> Callable[..., Any]:
    """One direction of a route that has records."""
    assert given is not None
    return given


def over_json(wire: dict[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(orjson.dumps(wire))
    return parsed


@pytest.mark.parametrize(
    "rollout",
    [
        Rollout(
            row=ROW,
            outcome="completed",
            response={"output": []},
            engine="spliced",
            turns=[TURN],
            verdict=VERDICT,
            timing=Timing(model_s=0.25),
            usage=Usage(input_tokens=2, output_tokens=1),
        ),
        Rollout(row=ROW, outcome="truncated", response={}, verdict=Verdict(reward=0.0, reason="cut")),
        Rollout(row=ROW, outcome="infra", failure=Failure(owner="infra", kind="timeout", message="m", retryable=True)),
    ],
)
def test_a_rollout_survives_its_line(rollout: Rollout) -> None:
    line = over_json(rollout.to_wire())
    assert rollout_from_wire(line) == rollout
    assert ("reward" in line) == (rollout.verdict is not None)


def test_a_rollout_line_reads_as_a_verify_reply_of_the_established_form() -> None:
    line = Rollout(row=ROW, outcome="completed", response={"output": []}, verdict=VERDICT).to_wire()
    assert line["reward"] == 0.5
    assert line["category"] == "a sentence"
    assert line["_ng_task_index"] == 2
    assert line["expected_action"] == ROW.task["expected_action"]


def test_a_verdict_over_the_wire_echoes_its_request() -> None:
    request = VerifyRequest(row=ROW, response={"output": []})
    reply = over_json(codec(VERIFY.reply_to_wire)(request, VERDICT))
    assert {key: reply[key] for key in codec(VERIFY.to_wire)(request)} == codec(VERIFY.to_wire)(request)
    assert codec(VERIFY.reply_from_wire)(request, reply) == VERDICT


def test_a_verify_reply_of_another_make_is_a_verdict_or_the_verifiers_failure() -> None:
    request = VerifyRequest(row=ROW, response={"output": []})
    echo = codec(VERIFY.to_wire)(request)
    verdict = codec(VERIFY.reply_from_wire)(request, {**echo, "reward": 1.0, "category": "found"})
    assert (verdict.reward, verdict.reason, verdict.extras) == (1.0, "unstated", {"category": "found"})
    with pytest.raises(VerifierError, match="judge is down"):
        codec(VERIFY.reply_from_wire)(
            request,
            {**echo, "reward": 0.0, "_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "judge is down"},
        )
    with pytest.raises(VerifierError, match="reward"):
        codec(VERIFY.reply_from_wire)(request, dict(echo))


def test_a_seed_reply_of_another_make_is_what_the_agent_may_see() -> None:
    assert codec(SEED.reply_from_wire)(ROW, {}).visible == {}
    assert codec(SEED.reply_from_wire)(ROW, {"secret_word": "owl"}).visible == {"secret_word": "owl"}


@pytest.mark.parametrize(
    ("wire", "named"),
    [
        ({}, "responses_create_params"),
        ({"responses_create_params": 5}, "responses_create_params"),
        ({"responses_create_params": {}}, "responses_create_params.input: missing"),
        ({"responses_create_params": {"input": 5}}, "responses_create_params.input: needs a string or a list"),
        ({"responses_create_params": {"input": ["x"]}}, "responses_create_params.input.0"),
        ({"responses_create_params": {"input": "x"}, "agent_ref": "me"}, "agent_ref"),
        ({"responses_create_params": {"input": "x"}, "_ng_task_index": "one"}, "_ng_task_index"),
        ({"responses_create_params": {"input": "x"}, "reward": 1.0}, "`reward` belongs to rollouts"),
    ],
)
def test_a_bad_row_is_the_rows_fault_and_names_the_key(wire: dict[str, Any], named: str) -> None:
    with pytest.raises(RowError) as caught:
        read_row(wire)
    assert named in caught.value.message


def test_a_verify_request_without_a_response_is_the_callers_fault() -> None:
    with pytest.raises(RequestError, match="response: missing"):
        codec(VERIFY.from_wire)(ROW.to_wire())


def test_a_run_reply_that_is_no_rollout_is_a_bug_and_no_reward() -> None:
    with pytest.raises(BugError, match="not a rollout"):
        codec(RUN.reply_from_wire)(ROW, {"reward": 1.0})
