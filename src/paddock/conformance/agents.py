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
from paddock.conformance.subjects import Subject
from paddock.errors import ConfigError, PaddockError
from paddock.http import RUN, Call, Peer, new_secret, rollout_from_wire, rollout_to_wire
from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.types import REWARDED, JsonObject, Outcome, Rollout, Row, Stamp

ANSWER = "yes"
"""What the scripted model says, and what the scripted rows ask for."""
PROMPT_S = 5.0
"""Seconds within which a cancelled or overdue rollout has to be over."""


class Stage(NamedTuple):
    """An agent between its scripted peers."""

    peer: Peer
    model: ScriptedModel

    async def run(self, row: Row, *, timeout_s: float = 30.0, secret: str | None = None) -> Rollout:
        return await self.peer.call(RUN, row, Call(rollout_secret=secret or new_secret()).within(timeout_s))


@asynccontextmanager
async def staged(
    subject: Subject,
    transport: Transport = "direct",
    *,
    model: JsonObject | None = None,
    environment: JsonObject | None = None,
    **changes: Any,
) -> AsyncIterator[Stage]:
    peers: dict[str, Peer] = {}
    world = ScriptedEnvironment(EnvironmentConfig(**(environment or {})), name="environment", peers=peers)
    policy = ScriptedModel(ModelConfig(**{"answer": ANSWER, **(model or {})}), name="policy", peers=peers)
    agent = subject.build(peers, **changes)
    async with over(transport, world, policy, agent) as found:
        yield Stage(found["subject"], policy)


def a_row(subject: Subject, *, answer: str = ANSWER, **task: Any) -> Row:
    """The agent's first own row, else a plain one, with the scripted environment's task."""
    base = subject.rows[0] if subject.rows else Row(responses_create_params={"input": "Say yes."})
    stamp = Stamp(run_id="run_check", group_id=3, group_size=2, member=1, attempt=0)
    return base.model_copy(update={"stamp": stamp, "task": {**base.task, "answer": answer, **task}})


def judged(rollout: Rollout, outcome: Outcome, reward: float) -> None:
    found = rollout.failure.message if rollout.failure else rollout.reward
    expect(
        (rollout.outcome, rollout.reward) == (outcome, reward),
        f"expected {outcome} {reward}, got {rollout.outcome} {found}",
    )


def failed(rollout: Rollout, outcome: Outcome, *, stage: str | None = None) -> None:
    expect(
        rollout.outcome == outcome, f"expected outcome {outcome}, got {rollout.outcome} with reward {rollout.reward}"
    )
    expect(rollout.reward is None, f"outcome {outcome} carries the reward {rollout.reward}")
    expect(rollout.failure is not None and rollout.failure.message, "the failure says nothing")
    if stage is not None and rollout.failure is not None:
        expect(rollout.failure.stage == stage, f"it failed in {stage}, and says {rollout.failure.stage}")


async def right_is_rewarded(subject: Subject) -> None:
    async with staged(subject) as stage:
        judged(await stage.run(a_row(subject)), "completed", 1.0)


async def wrong_is_a_verdict(subject: Subject) -> None:
    async with staged(subject) as stage:
        judged(await stage.run(a_row(subject, answer="no")), "completed", 0.0)


async def cut_is_truncated(subject: Subject) -> None:
    async with staged(subject, model={"cut": True}) as stage:
        rollout = await stage.run(a_row(subject))
    expect(rollout.outcome == "truncated", f"a cut answer ended as {rollout.outcome}")
    expect(rollout.verdict is not None, "a truncated rollout has no verdict of what is there")


async def keeps_its_row(subject: Subject) -> None:
    row = a_row(subject)
    async with staged(subject) as stage:
        rollout = await stage.run(row)
    expect(rollout.row == row, "the row of the rollout, with its stamps, is not the row that was asked for")


async def joins_turns(subject: Subject) -> None:
    async with staged(subject) as stage:
        rollout = await stage.run(a_row(subject))
        calls = stage.model.n_calls
    expect(calls >= 1, "the model was never asked")
    expect(len(rollout.turns) == calls, f"{calls} model calls, {len(rollout.turns)} turns in the rollout")
    expect(rollout.engine == "text", f"the model server's engine is text, the rollout says {rollout.engine}")
    expect(rollout.usage.output_tokens == 2 * calls, f"usage is not the sum of the turns: {rollout.usage}")


async def measures_time(subject: Subject) -> None:
    async with staged(subject, model={"delay_s": 0.05}) as stage:
        timing = (await stage.run(a_row(subject))).timing
    expect(timing.model_s >= 0.05, f"a model call of 0.05 s was measured as {timing.model_s:.3f} s")
    expect(timing.total_s >= timing.seed_s + timing.model_s + timing.verify_s - 0.01, f"the total is less: {timing}")


async def model_failures_are_infra(subject: Subject) -> None:
    for fail in ("infra", "error_reply", "raise"):
        async with staged(subject, model={"fail": fail, "fail_first": 10_000}) as stage:
            failed(await stage.run(a_row(subject)), "infra", stage="model")


async def refusals_are_no_reward(subject: Subject) -> None:
    async with staged(subject, model={"fail": "refuse", "fail_first": 10_000}) as stage:
        rollout = await stage.run(a_row(subject))
    expect(rollout.outcome not in REWARDED, f"a refused model call ended as {rollout.outcome}")


async def seed_failures_are_infra(subject: Subject) -> None:
    for seed in ("infra", "raise"):
        async with staged(subject, environment={"seed": seed}) as stage:
            failed(await stage.run(a_row(subject)), "infra", stage="seed")


async def grader_failures_are_the_graders(subject: Subject) -> None:
    async with staged(subject) as stage:
        for grade in ("raise", "verifier"):
            failed(await stage.run(a_row(subject, grade=grade)), "verifier", stage="verify")
        failed(await stage.run(a_row(subject, grade="infra")), "infra")


async def leaks_are_leaks(subject: Subject) -> None:
    async with staged(subject) as stage:
        failed(await stage.run(a_row(subject, grade="leak")), "leak")


async def wrong_rows_are_the_rows(subject: Subject) -> None:
    row = a_row(subject)
    task = {key: value for key, value in row.task.items() if key != "answer"}
    async with staged(subject) as stage:
        rollout = await stage.run(row.model_copy(update={"task": task}))
    failed(rollout, "row")
    expect(rollout.failure and "answer" in rollout.failure.message, "the failure does not name the row's key")


async def own_limit_ends_it(subject: Subject) -> None:
    for environment, row in (({"seed": "hang"}, a_row(subject)), ({}, a_row(subject, grade="hang"))):
        async with staged(subject, environment=environment, rollout_timeout_s=0.2) as stage:
            started = time.monotonic()
            failed(await stage.run(row), "infra")
            expect(time.monotonic() - started < PROMPT_S, "its time limit of 0.2 s did not end it")


async def callers_deadline_ends_it(subject: Subject) -> None:
    async with staged(subject) as stage:
        started = time.monotonic()
        try:
            failed(await stage.run(a_row(subject, grade="hang"), timeout_s=0.2), "infra")
        except PaddockError as error:
            expect(error.outcome in ("infra", "cancelled"), f"an overdue rollout raised {error.outcome}")
        expect(time.monotonic() - started < PROMPT_S, "the caller's deadline of 0.2 s did not end it")


async def cancellation_ends_it(subject: Subject) -> None:
    async with staged(subject) as stage:
        task = asyncio.create_task(stage.run(a_row(subject, grade="hang")))
        await asyncio.sleep(0.1)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=PROMPT_S)
        expect(done and task.cancelled(), "a cancelled rollout went on, or hid the cancellation")
        expect(stage.model.n_remembered == 0, "the turns of a cancelled rollout stay at the model server")


async def siblings_are_independent(subject: Subject) -> None:
    outcomes: dict[str, Outcome] = {"ok": "completed", "raise": "verifier", "infra": "infra", "leak": "leak"}
    grades = list(outcomes) * 4
    async with staged(subject) as stage:
        rollouts = await asyncio.gather(*(stage.run(a_row(subject, grade=grade)) for grade in grades))
    for grade, rollout in zip(grades, rollouts, strict=True):
        expect(
            rollout.outcome == outcomes[grade], f"beside others a row of {outcomes[grade]} ended as {rollout.outcome}"
        )
        if rollout.outcome == "completed":
            expect(len({turn.id for turn in rollout.turns}) == len(rollout.turns) > 0, "turns are mixed up")
    ids = [turn.id for rollout in rollouts for turn in rollout.turns]
    expect(len(ids) == len(set(ids)), "a turn stands in two rollouts")


async def nothing_stays_behind(subject: Subject) -> None:
    async with staged(subject) as stage:
        for grade in ("ok", "raise", "leak"):
            await stage.run(a_row(subject, grade=grade))
        expect(stage.model.n_remembered == 0, "the turns of ended rollouts stay at the model server")


async def secrets_stay_out(subject: Subject) -> None:
    async with staged(subject) as stage:
        for grade in ("ok", "raise"):
            secret = new_secret()
            line = orjson.dumps(rollout_to_wire(await stage.run(a_row(subject, grade=grade), secret=secret)))
            expect(secret.encode() not in line, "the rollout's secret stands in its line")


async def survives_its_line(subject: Subject) -> None:
    async with staged(subject) as stage:
        for grade in ("ok", "verifier"):
            rollout = await stage.run(a_row(subject, grade=grade))
            again = rollout_from_wire(orjson.loads(orjson.dumps(rollout_to_wire(rollout))))
            expect(again == rollout, "a rollout that was stored and read is another one")


async def transports_agree(subject: Subject) -> None:
    found = []
    for transport in TRANSPORTS:
        async with staged(subject, transport) as stage:
            rows = [
                a_row(subject),
                a_row(subject, answer="no"),
                a_row(subject, grade="raise"),
                a_row(subject, grade="leak"),
            ]
            rollouts = [await stage.run(row) for row in rows]
            found.append([(one.outcome, one.reward, len(one.turns)) for one in rollouts])
    expect(found[0] == found[1] == found[2], f"directly, over ASGI and over HTTP: {found}")


async def unknown_config_is_refused(subject: Subject) -> None:
    try:
        subject.build(no_such_key=1)
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
