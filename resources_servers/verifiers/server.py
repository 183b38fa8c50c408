"""The verdict of an episode of verifiers: the rewards and metrics that its own code gave, as its trace has them.

Reward  the sum of the trace's rewards, each times its weight; they are the components. Metrics are the trace's.
Reason  `scored`; `no_rewards`: the environment has none, which verifiers counts as 0.
Again   `reverify` computes the rewards again from the stored trace, where verifiers and the environment are installed
        and the rewards are functions of the trace alone (`rescore`); elsewhere the verdict is the stored one, and its
        detail says why.
Errors  VerifierError for a response without a trace, a reward that was not given or is no finite number.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import VerifierError
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import message_item

AGAIN = "rewards computed again from the stored trace"


class VerifiersTask(BaseModel):
    """One task of a taskset."""

    model_config = ConfigDict(frozen=True, extra="allow")

    environment: str = Field(min_length=1)
    """The taskset's id."""
    task_data: JsonObject
    """The task's data, as verifiers writes it."""
    good_turns: list[str] = []
    """Texts that a policy may answer with, turn by turn, to be paid in full; empty: none is known."""


class VerifiersServer(ResourcesServer[ServerConfig, VerifiersTask]):
    config_type = ServerConfig
    task_type = VerifiersTask
    OWN_PROMPT = True

    async def verify(self, task: VerifiersTask, row: Row, response: JsonObject) -> Verdict:
        trace = _trace(response)
        return verdict_of(task, trace, trace.get("rewards") or {}, trace.get("metrics") or {})

    async def reverify(self, task: VerifiersTask, row: Row, response: JsonObject, verdict: Verdict) -> Verdict:
        from paddock.resources_servers.verifiers.rescore import NotComputed, rescore

        trace = _trace(response)
        try:
            again = await rescore(task.environment, task.task_data, response["verifiers"])
        except NotComputed as reason:
            return verdict.model_copy(update={"detail": f"the stored reward: {reason}"})
        metrics = {**(trace.get("metrics") or {}), **again.metrics}
        return verdict_of(task, trace, again.rewards, metrics).model_copy(update={"detail": AGAIN})

    def oracle(self, task: VerifiersTask, row: Row) -> Sequence[Sequence[JsonObject]]:
        return [[message_item(text)] for text in task.good_turns]


def verdict_of(
    task: VerifiersTask, trace: JsonObject, rewards: Mapping[str, Any], metrics: Mapping[str, Any]
) -> Verdict:
    """The verdict of rewards as a trace has them: `{name: {score, weight}}`, None for one that was not given."""
    parts: dict[str, float] = {}
    for name, reward in rewards.items():
        if reward is None:
            raise VerifierError(f"the reward {name!r} was not given", kind="not_scored")
        value = _finite(name, reward["score"]) * _finite(name, reward["weight"])
        parts[name] = _finite(name, value)
    numbers = {name: float(value) for name, value in metrics.items() if value is not None and math.isfinite(value)}
    return Verdict(
        reward=sum(parts.values()),
        reward_components=parts,
        reason="scored" if parts else "no_rewards",
        metrics=numbers,
        labels={"environment": task.environment, "stop_condition": str(trace.get("stop_condition"))},
    )


def _trace(response: JsonObject) -> JsonObject:
    record = response.get("verifiers")
    traces = record.get("traces") if isinstance(record, dict) else None
    if not isinstance(traces, list) or len(traces) != 1 or not isinstance(traces[0], dict):
        raise VerifierError("verifiers.traces: the response has no trace of an episode", kind="no_trace")
    trace: JsonObject = traces[0]
    return trace


def _finite(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise VerifierError(f"the reward {name!r} is no finite number: {value!r}", kind="reward_not_finite")
    return float(value)
