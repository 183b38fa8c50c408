"""The result that NeMo-RL gets for one row: the rollout in inline form, or a masked result for one that failed.

Law     each row has a result, also one that failed: an exception would end a whole batch of NeMo-RL's. A failure has no
        reward: its 0 stands behind `instance_config.mask_sample`, where NeMo-RL reads it, over a prompt that is no
        group's. Nothing that failed here is trained on, nor what NeMo-RL would refuse (`checks`).
Numbers NeMo-RL averages each number and truth value at a result's top level, by agent. So there are few: `reward`,
        `masked`, what the verifier measured and what it says flat. Our stamps and outcome are below `paddock`.
"""

import logging

from paddock.collect.attempts import FinishedMember
from paddock.errors import BugError, PaddockError
from paddock.tokens.export import inline
from paddock.training.nemo_rl.checks import RULES, check_result
from paddock.training.nemo_rl.member_requests import ROW_INDEX, MemberRequest
from paddock.training.nemo_rl.records import Result
from paddock.types import JsonObject, Rollout, Row, Stamp

_log = logging.getLogger(__name__)
_STAMPS = frozenset(field.alias for field in Stamp.model_fields.values() if field.alias)


def result_of(request: MemberRequest, attempt_result: FinishedMember) -> Result:
    """The result of a member that has ended."""
    rollout = attempt_result.rollout or _unreadable(request)
    try:
        result = _flat(rollout, inline(rollout))
        violations = [violation for violation in check_result(result) if RULES[violation.rule].effect != "silent"]
        if not violations:
            return result
        error = BugError(f"NeMo-RL would refuse it: {violations[0]}", kind=violations[0].rule)
    except Exception as unexpected:  # noqa: BLE001 - a mistake of ours must not end a batch either
        _log.exception("a rollout can't be given to NeMo-RL")
        error = BugError(f"{type(unexpected).__name__}: {unexpected}", kind=type(unexpected).__name__)
    failed = _failed_rollout(rollout.row, error)
    return _flat(failed, inline(failed))


def is_masked(result: Result) -> bool:
    return bool(result["instance_config"]["mask_sample"])


def _unreadable(request: MemberRequest) -> Rollout:
    """The failed rollout of a row that can't be read."""
    error = request.group.error or BugError("a row without an agent", kind="no_agent")
    given = request.given.get("responses_create_params")
    params = given if isinstance(given, dict) else {}
    return _failed_rollout(Row(responses_create_params={"input": [], **params}), error)


def _failed_rollout(row: Row, error: PaddockError) -> Rollout:
    return Rollout(row=row, outcome=error.outcome, failure=error.failure())


def _flat(rollout: Rollout, line: JsonObject) -> Result:
    bare = {key: value for key, value in line.items() if key not in _STAMPS and key != ROW_INDEX}
    metrics = dict(rollout.verdict.metrics) if rollout.verdict else {}
    own: JsonObject = {**rollout.row.stamp.to_wire(), "outcome": rollout.outcome}
    if rollout.failure is not None:
        own["failure"] = rollout.failure.model_dump()
    return {**metrics, **bare, "masked": is_masked(line), "paddock": own}
