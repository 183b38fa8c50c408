"""What every model server does: speaks all dialects, records each call of a rollout once, and guesses nothing."""

import asyncio
import time
from typing import Any

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.model_fixture import (
    NO_ROLLOUT,
    ModelFixture,
    chat_question,
    model_fixture,
    question,
    require_upstream,
)
from paddock.conformance.model_messages import SUITE as MESSAGES
from paddock.conformance.model_record import SUITE as RECORD
from paddock.conformance.model_streams import SUITE as STREAMS
from paddock.conformance.target import ServerTarget
from paddock.errors import ConfigError, InfraError, PaddockError, RequestError
from paddock.http import CHAT, PLAIN_CHAT, PLAIN_RESPONSES, Call, new_secret
from paddock.testing.transports import TRANSPORTS
from paddock.testing.upstream import ErrorStatus
from paddock.types import JsonObject
from paddock.types.responses import messages

ENGINES = ("exact", "spliced", "text")
PROMPT_S = 10.0
"""Seconds within which a call to a dead upstream has to be over."""


async def answers_responses(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        reply = await fixture.ask(await fixture.open_rollout_if_any())
        expect(reply.get("object") == "response", f"object is {reply.get('object')!r}")
        expect(reply.get("status") == "completed", f"status is {reply.get('status')!r}")
        for key in ("id", "created_at", "model", "output", "usage", "tools", "tool_choice", "parallel_tool_calls"):
            expect(key in reply, f"the response has no `{key}`")
        expect(fixture.is_expected("".join(messages(reply))), f"it said {messages(reply)}")
        for item in reply["output"]:
            expect(item.get("type") and item.get("id"), f"an output item without type or id: {item}")


async def answers_chat(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout_if_any()
        if secret == NO_ROLLOUT:
            reply = await fixture.peer.call(PLAIN_CHAT, chat_question(), Call())
        else:
            reply = await fixture.peer.call(CHAT, chat_question(), Call(), secret=secret)
        if not isinstance(reply, dict):
            raise AssertionError("a stream came where a whole answer was asked for")
        expect(reply.get("object") == "chat.completion", f"object is {reply.get('object')!r}")
        choice = reply["choices"][0]
        expect(choice["message"]["role"] == "assistant", f"the message is {choice['message']}")
        expect(fixture.is_expected(choice["message"]["content"]), f"it said {choice['message']['content']!r}")
        expect(choice["finish_reason"] == "stop", f"finish_reason is {choice['finish_reason']!r}")
        expect("prompt_tokens" in (reply.get("usage") or {}), f"usage is {reply.get('usage')}")


async def each_call_is_one_turn(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        replies = await _conversation(fixture, secret, 3)
        record = await fixture.record(secret)
        expect(len(record.turns) == 3, f"3 calls, {len(record.turns)} turns")
        expect(record.engine in ENGINES, f"engine {record.engine}")
        for reply, turn in zip(replies, record.turns, strict=True):
            expect(
                _without_ids(turn.output) == _without_ids(reply["output"]), "a turn's output is not what was answered"
            )
        ids = [turn.id for turn in record.turns]
        expect(len(set(ids)) == 3, "turns share an id")
        for index, turn in enumerate(record.turns):
            expect(
                turn.parent is None or turn.parent in ids[:index],
                f"turn {index} continues {turn.parent}, no earlier turn",
            )


async def ids_are_complete_or_absent(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await _conversation(fixture, secret, 2)
        record = await fixture.record(secret)
    for turn in record.turns:
        given = (turn.prompt_ids is not None, turn.sampled_ids is not None)
        expect(given[0] == given[1], "a turn has prompt ids or sampled ids, and not both")
        expect(record.engine == "text" or given[0], f"an engine that is {record.engine} gave no ids")
        expect(turn.log_probs is None or len(turn.log_probs) == len(turn.sampled_ids or []), "log-probs do not fit")
        expect(len(turn.request_hash) == 64, f"request_hash {turn.request_hash!r} is no SHA-256")


async def reading_turns_freezes_them(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await fixture.ask(secret)
        record = await fixture.record(secret)
        try:
            await fixture.ask(secret)
        except RequestError as error:
            expect(error.kind == "frozen", f"the refusal's kind is {error.kind!r}, not `frozen`")
        else:
            raise AssertionError("a call was answered after the turns had been read")
        expect(await fixture.record(secret) == record, "reading the turns again gives others")


async def forgetting_forgets(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await fixture.ask(secret)
        await fixture.forget(secret)
        await fixture.forget(secret)
        expect((await fixture.record(secret)).turns == [], "a forgotten rollout has turns")
        left = [file.name for file in fixture.folder.rglob("*") if file.is_file() and file.stat().st_size > 0]
        expect(not any(secret in name for name in left), "a forgotten rollout's file is left")


async def unknown_rollouts_have_no_turns(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = new_secret()
        expect((await fixture.record(secret)).turns == [], "an unknown rollout has turns")
        await fixture.forget(secret)


async def rollouts_do_not_mix(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secrets = [await fixture.open_rollout() for _ in range(8)]
        await asyncio.gather(*(_conversation(fixture, secret, 2) for secret in secrets))
        records = [await fixture.record(secret) for secret in secrets]
        expect(
            [len(record.turns) for record in records] == [2] * 8, f"turns: {[len(entry.turns) for entry in records]}"
        )
        ids = [turn.id for record in records for turn in record.turns]
        expect(len(ids) == len(set(ids)), "a turn stands in two rollouts")


async def the_api_key_names_the_rollout(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        reply = await fixture.http("/v1/responses", question(), authorization=f"Bearer {secret}")
        expect(reply.status_code == 200, f"answered {reply.status_code}: {reply.text[:200]}")
        expect(len((await fixture.record(secret)).turns) == 1, "the call is not in the rollout that its API key names")


async def calls_outside_a_rollout_are_not_recorded(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        try:
            await fixture.peer.call(PLAIN_RESPONSES, question(), Call(bearer="any-key"))
        except RequestError as error:
            raise NotApplicable(f"it answers within rollouts only ({error.kind})") from error
        left = [file for file in fixture.folder.rglob("*") if file.is_file() and file.stat().st_size > 0]
        expect(not left, f"a call outside any rollout left {left}")


async def clients_may_say_more(target: ServerTarget) -> None:
    extra: JsonObject = {"no_such_field": {"a": 1}, "temperature": None, "metadata": None, "prompt_cache_key": "k"}
    async with model_fixture(target) as fixture:
        reply = await fixture.ask(await fixture.open_rollout_if_any(), {**question(), **extra})
        expect(reply.get("status") == "completed", f"status is {reply.get('status')!r}")


async def bad_bodies_are_400(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout_if_any()
        path = "/v1/responses" if secret == NO_ROLLOUT else f"/r/{secret}/v1/responses"
        for body in (b"{", b"[]", b'"text"'):
            reply = await fixture.http(path, body)
            expect(reply.status_code == 400, f"{body.decode()} answered {reply.status_code}")
            expect(reply.json().get("error", {}).get("message"), f"its error says nothing: {reply.text[:200]}")
        if secret != NO_ROLLOUT:
            expect((await fixture.record(secret)).turns == [], "a refused call was recorded")


async def transports_agree(target: ServerTarget) -> None:
    answers = []
    for transport in TRANSPORTS:
        async with model_fixture(target, transport) as fixture:
            secret = await fixture.open_rollout()
            replies = await _conversation(fixture, secret, 2)
            record = await fixture.record(secret)
            answers.append(([_without_ids(reply["output"]) for reply in replies], len(record.turns), record.engine))
    expect(answers[0] == answers[1] == answers[2], f"directly, over ASGI and over HTTP: {answers}")


async def secrets_are_written_nowhere(target: ServerTarget) -> None:
    async with model_fixture(target) as fixture:
        secret = await fixture.open_rollout()
        await fixture.ask(secret)
        expect(secret not in repr(fixture.server) + repr(vars(fixture.server).get("config")), "the secret is shown")
        for file in fixture.folder.rglob("*"):
            expect(secret not in file.name, "the secret is a file's name")
            expect(not file.is_file() or secret.encode() not in file.read_bytes(), "the secret stands in a file")


async def dead_upstreams_are_infra(target: ServerTarget) -> None:
    for fault in (ErrorStatus(500), ErrorStatus(429), "drop", "half_body", "not_json", "not_an_answer"):
        async with model_fixture(target, faults=lambda _number, fault=fault: fault) as fixture:  # type: ignore[misc]
            upstream = require_upstream(fixture)
            error = await _refused(fixture, str(fault))
            expect(isinstance(error, InfraError), f"{fault}: {type(error).__name__}, of owner {error.owner}")
            expect(upstream.calls <= 2, f"{fault}: {upstream.calls} calls upstream where 2 were allowed")


async def hanging_upstreams_are_infra(target: ServerTarget) -> None:
    async with model_fixture(target, faults=lambda _number: "hang") as fixture:
        require_upstream(fixture)
        started = time.monotonic()
        secret = await fixture.open_rollout_if_any()
        try:
            await fixture.ask(secret, call=Call().within(0.3))
        except InfraError:
            expect(time.monotonic() - started < PROMPT_S, "the caller's deadline did not end the call")
            return
        raise AssertionError("a call was answered by an upstream that never answers")


async def a_passing_failure_is_mended(target: ServerTarget) -> None:
    async with model_fixture(target, faults=lambda number: ErrorStatus(500) if number == 0 else None) as fixture:
        require_upstream(fixture)
        secret = await fixture.open_rollout()
        await fixture.ask(secret)
        expect(len((await fixture.record(secret)).turns) == 1, "a call that was tried twice is not one turn")


async def refusals_are_not_tried_again(target: ServerTarget) -> None:
    async with model_fixture(target, faults=lambda _number: ErrorStatus(400, "no such thing")) as fixture:
        upstream = require_upstream(fixture)
        error = await _refused(fixture, "status 400")
        expect(isinstance(error, RequestError), f"a refusal became {type(error).__name__}")
        expect(upstream.calls == 1, f"a refusal was asked for {upstream.calls} times")


async def unknown_config_is_refused(target: ServerTarget) -> None:
    try:
        target.build(no_such_key=1)
    except ConfigError as error:
        expect("no_such_key" in error.message, f"the refusal does not name the key: {error.message}")
        return
    raise AssertionError("a config key that does not exist was accepted")


async def _refused(fixture: ModelFixture, what: str) -> PaddockError:
    """The error of a call; nothing of it may be recorded."""
    secret = await fixture.open_rollout_if_any()
    try:
        await fixture.ask(secret)
    except PaddockError as error:
        if secret != NO_ROLLOUT:
            expect((await fixture.record(secret)).turns == [], f"{what}: a failed call was recorded")
        return error
    raise AssertionError(f"{what}: the call was answered")


async def _conversation(fixture: ModelFixture, secret: str, count: int) -> list[JsonObject]:
    """Calls that each continue the one before."""
    history: list[Any] = list(question()["input"])
    replies = []
    for _ in range(count):
        replies.append(await fixture.ask(secret, {**question(), "input": history}))
        history = [*history, *replies[-1]["output"], {"role": "user", "content": "And then?"}]
    return replies


def _without_ids(items: list[JsonObject]) -> list[tuple[Any, str]]:
    """Items without their ids."""
    return [(item.get("type"), "".join(messages([item])) or str(item.get("arguments"))) for item in items]


SUITE = [
    Behaviour("a Responses call gets a standard response", answers_responses),
    Behaviour("a Chat call gets a standard completion", answers_chat),
    Behaviour("each call of a rollout is one turn, as it was answered", each_call_is_one_turn),
    Behaviour("token ids are complete or absent, never guessed", ids_are_complete_or_absent),
    Behaviour("reading the turns freezes the rollout", reading_turns_freezes_them),
    Behaviour("a forgotten rollout has no turns", forgetting_forgets),
    Behaviour("an unknown rollout has no turns, and that is no error", unknown_rollouts_have_no_turns),
    Behaviour("rollouts at the same time do not mix", rollouts_do_not_mix),
    Behaviour("the API key names the rollout", the_api_key_names_the_rollout),
    Behaviour("a call outside any rollout is not recorded", calls_outside_a_rollout_are_not_recorded),
    Behaviour("a client may say more than the standard", clients_may_say_more),
    Behaviour("a body that is no JSON object is 400 and no turn", bad_bodies_are_400),
    Behaviour("answers are the same directly, over ASGI and over HTTP", transports_agree),
    Behaviour("the secret is written nowhere", secrets_are_written_nowhere),
    Behaviour("a dead upstream is infra after a bounded number of tries, and no turn", dead_upstreams_are_infra),
    Behaviour("a hanging upstream is infra within the caller's deadline", hanging_upstreams_are_infra),
    Behaviour("a failure that passes is tried again, as one turn", a_passing_failure_is_mended),
    Behaviour("a refusal is not tried again", refusals_are_not_tried_again),
    Behaviour("an unknown config key is refused by name", unknown_config_is_refused),
    *RECORD,
    *MESSAGES,
    *STREAMS,
]
