"""What every agent does: one outcome per rollout, by whoever is at fault, and nothing left behind.

The agent runs against a scripted environment and a scripted model (`paddock.conformance.scripted`), whose one answer
is a message; so an agent whose harness needs more than that is checked with a row and a block that make it do with it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import orjson

from paddock.conformance.behaviours import Behaviour, expect
from paddock.conformance.scripted import EnvironmentConfig, ModelConfig, ScriptedEnvironment, ScriptedModel
from paddock.conformance.target import ServerTarget
from paddock.errors import ConfigError, PaddockError
from paddock.http import RUN, Call, Peer, new_secret, rollout_from_wire
from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.types import REWARDED, JsonObject, Outcome, Rollout, Row, Stamp

ANSWER = "yes"
"""What the scripted model says, and what the scripted rows ask for."""
PROMPT_S = 5.0
"""Seconds within which a cancelled or overdue rollout has to be over."""


class AgentFixture(NamedTuple):
    """An agent between its scripted peers."""

    peer: Peer
    model: ScriptedModel

    async def run(self, row: Row, *, timeout_s: float = 30.0, secret: str | None = None) -> Rollout:
        return await self.peer.call(RUN, row, Call(rollout_secret=secret or new_secret()).within(timeout_s))


@asynccontextmanager
async def agent_fixture(
    target: ServerTarget,
    transport: Transport = "direct",
    *,
    model: JsonObject | None = None,
    environment: JsonObject | None = None,
    **changes: Any,
) -> AsyncIterator[AgentFixture]:
    peers: dict[str, Peer] = {}
    world = ScriptedEnvironment(EnvironmentConfig(**(environment or {})), name="environment", peers=peers)
    policy = ScriptedModel(ModelConfig(**{"answer": ANSWER, **(model or {})}), name="policy", peers=peers)
    agent = target.build(peers, **changes)
    async with over(transport, world, policy, agent) as peers_by_name:
        yield AgentFixture(peers_by_name["target"], policy)


def a_row(target: ServerTarget, *, answer: str = ANSWER, **task: Any) -> Row:
    """Make a row with the scripted environment's task from the agent's first own row, else from a plain one."""
    base = target.rows[0] if target.rows else Row(responses_create_params={"input": "Say yes."})
    stamp = Stamp(run_id="run_check", group_id=3, group_size=2, member=1, attempt=0)
    return base.model_copy(update={"stamp": stamp, "task": {**base.task, "answer": answer, **task}})


def expect_verdict(rollout: Rollout, outcome: Outcome, reward: float) -> None:
    got = rollout.failure.message if rollout.failure else rollout.reward
    expect(
        (rollout.outcome, rollout.reward) == (outcome, reward),
        f"expected {outcome} {reward}, got {rollout.outcome} {got}",
    )


def expect_failure(rollout: Rollout, outcome: Outcome, *, stage: str | None = None) -> None:
    expect(
        rollout.outcome == outcome, f"expected outcome {outcome}, got {rollout.outcome} with reward {rollout.reward}"
    )
    expect(rollout.reward is None, f"outcome {outcome} carries the reward {rollout.reward}")
    expect(rollout.failure is not None and rollout.failure.message, "the failure says nothing")
    if stage is not None and rollout.failure is not None:
        expect(rollout.failure.stage == stage, f"it failed in {stage}, and says {rollout.failure.stage}")


async def right_is_rewarded(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        expect_verdict(await fixture.run(a_row(target)), "completed", 1.0)


async def wrong_is_a_verdict(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        expect_verdict(await fixture.run(a_row(target, answer="no")), "completed", 0.0)


async def cut_is_truncated(target: ServerTarget) -> None:
    async with agent_fixture(target, model={"cut": True}) as fixture:
        rollout = await fixture.run(a_row(target))
    expect(rollout.outcome == "truncated", f"a cut answer ended as {rollout.outcome}")
    expect(rollout.verdict is not None, "a truncated rollout has no verdict of what is there")


async def keeps_its_row(target: ServerTarget) -> None:
    row = a_row(target)
    async with agent_fixture(target) as fixture:
        rollout = await fixture.run(row)
    expect(rollout.row == row, "the row of the rollout, with its stamps, is not the row that was asked for")


async def joins_turns(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        rollout = await fixture.run(a_row(target))
        calls = fixture.model.n_calls
    expect(calls >= 1, "the model was never asked")
    expect(len(rollout.turns) == calls, f"{calls} model calls, {len(rollout.turns)} turns in the rollout")
    expect(rollout.engine == "text", f"the model server's engine is text, the rollout says {rollout.engine}")
    expect(rollout.usage.output_tokens == 2 * calls, f"usage is not the sum of the turns: {rollout.usage}")


async def measures_time(target: ServerTarget) -> None:
    async with agent_fixture(target, model={"delay_s": 0.05}) as fixture:
        timing = (await fixture.run(a_row(target))).timing
    expect(timing.model_s >= 0.05, f"a model call of 0.05 s was measured as {timing.model_s:.3f} s")
    expect(timing.total_s >= timing.seed_s + timing.model_s + timing.verify_s - 0.01, f"the total is less: {timing}")


async def model_failures_are_infra(target: ServerTarget) -> None:
    for fail in ("infra", "error_reply", "raise"):
        async with agent_fixture(target, model={"fail": fail, "fail_first": 10_000}) as fixture:
            expect_failure(await fixture.run(a_row(target)), "infra", stage="model")


async def refusals_are_no_reward(target: ServerTarget) -> None:
    async with agent_fixture(target, model={"fail": "refuse", "fail_first": 10_000}) as fixture:
        rollout = await fixture.run(a_row(target))
    expect(rollout.outcome not in REWARDED, f"a refused model call ended as {rollout.outcome}")


async def seed_failures_are_infra(target: ServerTarget) -> None:
    for seed in ("infra", "raise"):
        async with agent_fixture(target, environment={"seed": seed}) as fixture:
            expect_failure(await fixture.run(a_row(target)), "infra", stage="seed")


async def grader_failures_are_the_graders(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        for grade in ("raise", "verifier"):
            expect_failure(await fixture.run(a_row(target, grade=grade)), "verifier", stage="verify")
        expect_failure(await fixture.run(a_row(target, grade="infra")), "infra")


async def leaks_are_leaks(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        expect_failure(await fixture.run(a_row(target, grade="leak")), "leak")


async def wrong_rows_are_the_rows(target: ServerTarget) -> None:
    row = a_row(target)
    task = {key: value for key, value in row.task.items() if key != "answer"}
    async with agent_fixture(target) as fixture:
        rollout = await fixture.run(row.model_copy(update={"task": task}))
    expect_failure(rollout, "row")
    expect(rollout.failure and "answer" in rollout.failure.message, "the failure does not name the row's key")


async def own_limit_ends_it(target: ServerTarget) -> None:
    for environment, row in (({"seed": "hang"}, a_row(target)), ({}, a_row(target, grade="hang"))):
        async with agent_fixture(target, environment=environment, rollout_timeout_s=0.2) as fixture:
            started = time.monotonic()
            expect_failure(await fixture.run(row), "infra")
            expect(time.monotonic() - started < PROMPT_S, "its time limit of 0.2 s did not end it")


async def callers_deadline_ends_it(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        started = time.monotonic()
        try:
            expect_failure(await fixture.run(a_row(target, grade="hang"), timeout_s=0.2), "infra")
        except PaddockError as error:
            expect(error.outcome in ("infra", "cancelled"), f"an overdue rollout raised {error.outcome}")
        expect(time.monotonic() - started < PROMPT_S, "the caller's deadline of 0.2 s did not end it")


async def cancellation_ends_it(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        task = asyncio.create_task(fixture.run(a_row(target, grade="hang")))
        await asyncio.sleep(0.1)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=PROMPT_S)
        expect(done and task.cancelled(), "a cancelled rollout went on, or hid the cancellation")
        expect(fixture.model.n_remembered == 0, "the turns of a cancelled rollout stay at the model server")


async def siblings_are_independent(target: ServerTarget) -> None:
    outcomes: dict[str, Outcome] = {"ok": "completed", "raise": "verifier", "infra": "infra", "leak": "leak"}
    grades = list(outcomes) * 4
    async with agent_fixture(target) as fixture:
        rollouts = await asyncio.gather(*(fixture.run(a_row(target, grade=grade)) for grade in grades))
    for grade, rollout in zip(grades, rollouts, strict=True):
        expect(
            rollout.outcome == outcomes[grade], f"beside others a row of {outcomes[grade]} ended as {rollout.outcome}"
        )
        if rollout.outcome == "completed":
            expect(len({turn.id for turn in rollout.turns}) == len(rollout.turns) > 0, "turns are mixed up")
    ids = [turn.id for rollout in rollouts for turn in rollout.turns]
    expect(len(ids) == len(set(ids)), "a turn stands in two rollouts")


async def nothing_stays_behind(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        for grade in ("ok", "raise", "leak"):
            await fixture.run(a_row(target, grade=grade))
        expect(fixture.model.n_remembered == 0, "the turns of ended rollouts stay at the model server")


async def secrets_stay_out(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        for grade in ("ok", "raise"):
            secret = new_secret()
            line = orjson.dumps((await fixture.run(a_row(target, grade=grade), secret=secret)).to_wire())
            expect(secret.encode() not in line, "the rollout's secret stands in its line")


async def survives_its_line(target: ServerTarget) -> None:
    async with agent_fixture(target) as fixture:
        for grade in ("ok", "verifier"):
            rollout = await fixture.run(a_row(target, grade=grade))
            again = rollout_from_wire(orjson.loads(orjson.dumps(rollout.to_wire())))
            expect(again == rollout, "a rollout that was stored and read is another one")


async def transports_agree(target: ServerTarget) -> None:
    outcomes = []
    for transport in TRANSPORTS:
        async with agent_fixture(target, transport) as fixture:
            rows = [
                a_row(target),
                a_row(target, answer="no"),
                a_row(target, grade="raise"),
                a_row(target, grade="leak"),
            ]
            rollouts = [await fixture.run(row) for row in rows]
            outcomes.append([(rollout.outcome, rollout.reward, len(rollout.turns)) for rollout in rollouts])
    expect(outcomes[0] == outcomes[1] == outcomes[2], f"directly, over ASGI and over HTTP: {outcomes}")


async def unknown_config_is_refused(target: ServerTarget) -> None:
    try:
        target.build(no_such_key=1)
    except ConfigError as error:
        expect("no_such_key" in error.message, f"the refusal does not name the key: {error.message}")
        return
    raise AssertionError("a config key that does not exist was accepted")


SUITE = [
    Behaviour("a right answer is completed with its reward", right_is_rewarded),
    Behaviour("a wrong answer is completed with reward 0", wrong_is_a_verdict),
    Behaviour("an answer that a budget cut is truncated, with a verdict", cut_is_truncated),
    Behaviour("a rollout keeps its row and its stamps", keeps_its_row),
    Behaviour("every model call is a turn of the rollout", joins_turns),
    Behaviour("time is measured by stage", measures_time),
    Behaviour("a failing model is infra, in stage model", model_failures_are_infra),
    Behaviour("a refused model call carries no reward", refusals_are_no_reward),
    Behaviour("a failing seed is infra, in stage seed", seed_failures_are_infra),
    Behaviour("a failing grader is the grader's, in stage verify", grader_failures_are_the_graders),
    Behaviour("a leak is a leak", leaks_are_leaks),
    Behaviour("a wrong row is the row's, by its key", wrong_rows_are_the_rows),
    Behaviour("the agent's own time limit ends a rollout", own_limit_ends_it),
    Behaviour("the caller's deadline ends a rollout", callers_deadline_ends_it),
    Behaviour("cancelling ends a rollout at once and leaves no turns", cancellation_ends_it),
    Behaviour("failing rollouts leave their siblings alone", siblings_are_independent),
    Behaviour("nothing stays at the model server", nothing_stays_behind),
    Behaviour("the secret is not in the rollout", secrets_stay_out),
    Behaviour("a rollout is the same after it was stored and read", survives_its_line),
    Behaviour("rollouts end the same directly, over ASGI and over HTTP", transports_agree),
    Behaviour("an unknown config key is refused by name", unknown_config_is_refused),
]
