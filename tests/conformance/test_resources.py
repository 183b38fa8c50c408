"""Claims about the resources servers' suite: sound servers pass it, and each behaviour catches a broken one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from fastapi import FastAPI, Request, Response
from pydantic import ConfigDict

from paddock.conformance import BehaviourResult, suite_for
from paddock.conformance.scripted import EnvironmentConfig, EnvironmentTask, ScriptedEnvironment
from paddock.errors import RequestError, RowError
from paddock.http import AggregateMetrics
from paddock.types import JsonObject, Row, Session, Verdict

ROWS: list[JsonObject] = [
    {"responses_create_params": {"input": "one"}, "answer": "the first known answer"},
    {"responses_create_params": {"input": "two"}, "answer": "the second known answer"},
]
CALLERS: list[Any] = []
"""The tasks of tests: a server that is called directly runs in one of them."""


class Halved(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        verdict = await super().verify(task, row, response)
        return verdict.model_copy(update={"reward": verdict.reward / 2})


class Generous(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=1.0, reason="fine")


class Wordy(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=0.0, reason="not what was asked for")


class Brittle(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=0.0, reason=str(response["output"][0]["type"]))


class Moody(ScriptedEnvironment):
    calls = 0

    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        Moody.calls += 1
        return Verdict(reward=float(Moody.calls % 2), reason="moody")


class Scribbler(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        response["output"].append({"type": "mark"})
        return Verdict(reward=0.0, reason="wrong")


class ForgetfulEnvironment(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        self.latest = response
        await asyncio.sleep(0)
        return await super().verify(task, row, self.latest)


class WiredEnvironment(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        direct = asyncio.current_task() is CALLERS[-1]
        return Verdict(reward=float(direct), reason="wired")


class MuteEnvironment(ScriptedEnvironment):
    def read_task(self, row: Row) -> EnvironmentTask:
        try:
            return super().read_task(row)
        except RowError as error:
            raise RowError("the row is wrong") from error


class Blaming(ScriptedEnvironment):
    def read_task(self, row: Row) -> EnvironmentTask:
        try:
            return super().read_task(row)
        except RowError as error:
            raise RequestError(error.message) from error


class Soothing(ScriptedEnvironment):
    def extend(self, app: FastAPI) -> None:
        @app.middleware("http")
        async def soothe(request: Request, forward: Callable[[Request], Awaitable[Response]]) -> Response:
            reply = await forward(request)
            return reply if reply.status_code < 400 else Response(b'{"reward": 0.0}', 200)


class Renaming(ScriptedEnvironment):
    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=0.0, reason="wrong", extras={"answer": "another"})


class Telling(ScriptedEnvironment):
    async def seed_session(self, task: EnvironmentTask, row: Row) -> Session:
        return Session(visible={"hint": f"it is {task.answer}"})


class Once(ScriptedEnvironment):
    async def seed_session(self, task: EnvironmentTask, row: Row) -> Session:
        if self.__dict__.setdefault("opened", False):
            raise RuntimeError("open already")
        self.__dict__["opened"] = True
        return Session()


class Averaging(ScriptedEnvironment):
    def aggregate_metrics(self, verify_responses: Sequence[JsonObject]) -> AggregateMetrics:
        mean = sum(float(reply.get("reward", 0.0)) for reply in verify_responses) / len(verify_responses)
        return AggregateMetrics(group_level_metrics=[], agent_metrics={}, key_metrics={"mean/reward": mean})


class LaxEnvironmentConfig(EnvironmentConfig):
    model_config = ConfigDict(extra="allow")


class LaxEnvironment(ScriptedEnvironment):
    config_type = LaxEnvironmentConfig


class Ageing(ScriptedEnvironment):
    starts = 0

    async def start(self) -> None:
        Ageing.starts += 1

    async def verify(self, task: EnvironmentTask, row: Row, response: JsonObject) -> Verdict:
        return Verdict(reward=0.0, reason=f"start_{Ageing.starts}")


class Unruly(ScriptedEnvironment):
    async def start(self) -> None:
        self.__dict__["task"] = asyncio.create_task(asyncio.sleep(60))


BROKEN: dict[str, type[ScriptedEnvironment]] = {
    "known-good turns score 1": Halved,
    "an answer without items scores 0": Generous,
    "a verdict has a finite reward, finite metrics and a short key as its reason": Wordy,
    "whatever a policy answers is judged, and nonsense earns nothing": Brittle,
    "the same row and answer get the same verdict": Moody,
    "judging changes neither row nor answer": Scribbler,
    "concurrent calls do not interfere": ForgetfulEnvironment,
    "verdicts are the same directly, over ASGI and over HTTP": WiredEnvironment,
    "a wrong row is refused by the key that is wrong": MuteEnvironment,
    "a wrong row is 422, of owner row": Blaming,
    "a refused request carries no reward": Soothing,
    "the reply of /verify echoes its request": Renaming,
    "a session tells nothing of the known-good answer": Telling,
    "a session can be opened twice": Once,
    "failures enter no mean": Averaging,
    "an unknown config key is refused by name": LaxEnvironment,
    "it can be stopped and started again": Ageing,
}
OutcomeOf = Callable[..., Awaitable[BehaviourResult]]


@pytest.mark.slow
async def test_the_pivot_server_passes(run_all: Callable[[str], Awaitable[list[BehaviourResult]]]) -> None:
    assert [result for result in await run_all("resources_server:pivot") if result.outcome != "passed"] == []


@pytest.mark.slow
async def test_a_server_that_judges_a_group_together_passes(
    run_all: Callable[[str], Awaitable[list[BehaviourResult]]],
) -> None:
    found = {result.behaviour: result.outcome for result in await run_all("resources_server:genrm")}
    assert "failed" not in found.values()
    assert {name for name, outcome in found.items() if outcome == "skipped"} == {
        "known-good turns score 1",
        "an answer without items scores 0",
    }


@pytest.mark.parametrize("behaviour", [behaviour.name for behaviour in suite_for("resources_server")])
async def test_the_scripted_environment_passes(behaviour: str, outcome_of: OutcomeOf) -> None:
    result = await outcome_of(behaviour, "resources_servers", ScriptedEnvironment, {}, ROWS)
    assert result.outcome == "passed", result.detail


@pytest.mark.parametrize("behaviour", BROKEN)
async def test_a_broken_server_fails(behaviour: str, outcome_of: OutcomeOf) -> None:
    CALLERS.append(asyncio.current_task())
    result = await outcome_of(behaviour, "resources_servers", BROKEN[behaviour], {}, ROWS)
    assert result.outcome == "failed"
    assert result.detail


async def test_a_server_without_rows_fails_and_the_rest_says_what_it_lacks(outcome_of: OutcomeOf) -> None:
    bare: tuple[Any, ...] = ("resources_servers", ScriptedEnvironment, {})
    assert (await outcome_of("it has example rows", *bare)).outcome == "failed"
    skipped = await outcome_of("known-good turns score 1", *bare)
    assert (skipped.outcome, "there are no rows" in skipped.detail) == ("skipped", True)


@pytest.mark.slow
async def test_a_task_left_running_fails_any_behaviour(outcome_of: OutcomeOf) -> None:
    result = await outcome_of("an answer without items scores 0", "resources_servers", Unruly, {}, ROWS)
    assert (result.outcome, "left running" in result.detail) == ("failed", True)


def test_every_behaviour_is_proven_to_fail() -> None:
    assert {behaviour.name for behaviour in suite_for("resources_server")} == {*BROKEN, "it has example rows"}
