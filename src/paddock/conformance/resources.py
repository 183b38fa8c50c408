"""What every resources server does: judges soundly, the same way each time, and gives nothing away.

The checks use the plugin's own rows. An answer is a Responses API response; the empty one has no output items.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import isfinite
from typing import Any

import httpx
import orjson

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.target import ServerTarget
from paddock.errors import ConfigError, PaddockError, RequestError, RowError
from paddock.http import AGGREGATE, SEED, VERIFY, AggregateRequest, Call, Peer, VerifyRequest
from paddock.server import ResourcesServer
from paddock.server.app import build_app
from paddock.testing.transports import TRANSPORTS, Transport, over
from paddock.types import JsonObject, Row, Verdict
from paddock.types.responses import call_item, make_response, message_item

MAX_ROWS = 40
"""Rows that a check over all rows looks at."""
CONCURRENT = 32
MIN_SECRET_CHARS = 8
"""Shorter strings of a known-good answer stand in many places by chance."""
ODD_ANSWERS: tuple[Any, ...] = (
    {},
    {"output": None},
    {"output": "text"},
    {"output": [None, 3, "x"]},
    {"output": [{"type": "no_such_item"}]},
    {"output": [{"type": "function_call"}]},
    {"output": [{"type": "function_call", "name": 3, "arguments": {"a": 1}}]},
    {"output": [{"type": "function_call", "name": "x", "arguments": "{not json"}]},
    {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}]},
    {"output": [call_item("x", "[" * 2000 + "]" * 2000)]},
)


@asynccontextmanager
async def peer_of(target: ServerTarget, transport: Transport = "direct", **changes: Any) -> AsyncIterator[Peer]:
    found: dict[str, Peer] = {}
    async with over(transport, target.build(found, **changes), *target.build_models(found)) as peers:
        yield peers["target"]


def rows_of(target: ServerTarget) -> list[Row]:
    if not target.rows:
        raise NotApplicable("there are no rows: put some into data/example.jsonl, or give --rows")
    rows = target.rows[:MAX_ROWS]
    return [_alone(row) for row in rows] if is_group_wise(target) else rows


def is_group_wise(target: ServerTarget) -> bool:
    return issubclass(target.cls, ResourcesServer) and target.cls.GROUP_WISE


def _alone(row: Row) -> Row:
    """Make the row the only member of its group, so that it waits for no other."""
    return row.model_copy(update={"stamp": row.stamp.model_copy(update={"group_size": 1, "member": 0})})


def require_absolute(target: ServerTarget) -> None:
    if is_group_wise(target):
        raise NotApplicable("its rewards compare the members of a group: no answer has one for itself")


def good_answer(target: ServerTarget, row: Row) -> JsonObject:
    """Build a response from the row's known-good turns, one after the other."""
    server = target.build()
    if not isinstance(server, ResourcesServer) or type(server).oracle is ResourcesServer.oracle:
        raise NotApplicable("the server knows no good turns: it has no `oracle`")
    try:
        turns = server.oracle(server.read_task(row), row)
    except PaddockError as error:
        if error.kind != "no_oracle":
            raise
        raise NotApplicable(f"no good turns are known of this row: {error.message}") from error
    items = [item for turn in turns for item in turn]
    return make_response(items, row.responses_create_params, model="oracle")


def empty_answer(row: Row) -> JsonObject:
    return make_response([], row.responses_create_params, model="nobody")


async def judge(peer: Peer, row: Row, response: Any) -> Verdict:
    verdict = await peer.call(VERIFY, VerifyRequest(row=row, response=response), Call())
    return verdict.model_copy(update={"waited_s": 0.0})  # says something of the machine alone


def cases(target: ServerTarget) -> list[tuple[Row, JsonObject]]:
    """Pair every row with answers whose verdicts differ."""
    pairs = []
    for row in rows_of(target):
        other = make_response([message_item("something else")], row.responses_create_params, model="nobody")
        pairs += [(row, empty_answer(row)), (row, other)]
        try:
            pairs.append((row, good_answer(target, row)))
        except NotApplicable:
            continue
    return pairs


async def has_rows(target: ServerTarget) -> None:
    expect(target.rows, "there are no example rows: put some into data/example.jsonl beside the server")


async def good_scores_one(target: ServerTarget) -> None:
    require_absolute(target)
    async with peer_of(target) as peer:
        for number, row in enumerate(rows_of(target), 1):
            verdict = await judge(peer, row, good_answer(target, row))
            expect(
                verdict.reward == 1.0, f"row {number}: the known-good turns score {verdict.reward} ({verdict.reason})"
            )


async def empty_scores_zero(target: ServerTarget) -> None:
    require_absolute(target)
    async with peer_of(target) as peer:
        for number, row in enumerate(rows_of(target), 1):
            verdict = await judge(peer, row, empty_answer(row))
            expect(verdict.reward == 0.0, f"row {number}: an answer without items scores {verdict.reward}")


async def verdicts_are_usable(target: ServerTarget) -> None:
    async with peer_of(target) as peer:
        for row, response in cases(target):
            verdict = await judge(peer, row, response)
            expect(isfinite(verdict.reward), f"reward {verdict.reward}")
            expect(verdict.reason and " " not in verdict.reason, f"reason {verdict.reason!r} is no short key")
            expect(all(isfinite(value) for value in verdict.metrics.values()), f"metrics {verdict.metrics}")


async def odd_answers_are_judged(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    async with peer_of(target) as peer:
        for response in ODD_ANSWERS:
            try:
                verdict = await judge(peer, row, response)
            except RequestError:
                continue  # what is no response may be refused where it comes over a wire
            nothing = is_group_wise(target) or verdict.reward <= 0.0
            expect(nothing, f"{str(response)[:80]} scores {verdict.reward} ({verdict.reason})")


async def is_deterministic(target: ServerTarget) -> None:
    async with peer_of(target) as peer:
        for row, response in cases(target):
            first, again = await judge(peer, row, response), await judge(peer, row, response)
            expect(first == again, f"{first.reward} ({first.reason}), then {again.reward} ({again.reason})")


async def leaves_requests_alone(target: ServerTarget) -> None:
    async with peer_of(target) as peer:
        for row, response in cases(target):
            given = (copy.deepcopy(row), copy.deepcopy(response))
            await peer.call(SEED, row, Call())
            await judge(peer, row, response)
            expect((row, response) == given, "the row or the response was changed by judging it")


async def concurrent_calls_do_not_interfere(target: ServerTarget) -> None:
    chosen = (cases(target) * CONCURRENT)[:CONCURRENT]
    async with peer_of(target) as peer:
        alone = [await judge(peer, row, response) for row, response in chosen]
        together = await asyncio.gather(*(judge(peer, row, response) for row, response in chosen))
    expect(alone == together, "verdicts given at the same time differ from those given one by one")


async def transports_agree(target: ServerTarget) -> None:
    chosen = cases(target)[:12]
    verdicts: dict[str, list[Verdict]] = {}
    for transport in TRANSPORTS:
        async with peer_of(target, transport) as peer:
            verdicts[transport] = [await judge(peer, row, response) for row, response in chosen]
    for transport in TRANSPORTS[1:]:
        for plain, other in zip(verdicts[TRANSPORTS[0]], verdicts[transport], strict=True):
            expect(plain.reward == other.reward, f"{plain.reward} directly, {other.reward} over {transport}")
            expect((plain.reason, plain.detail) == (other.reason, other.detail), f"{transport} gives another reason")


async def wrong_rows_name_their_key(target: ServerTarget) -> None:
    refused = await refused_rows(target)
    expect(refused, "no key of a row is needed: nonsense under each of them, and a row without any, were all judged")
    for key, (_, message) in refused.items():
        expect(key in message, f"`{key}` is wrong, and the refusal does not name it: {message}")


async def refused_rows(target: ServerTarget) -> dict[str, tuple[Row, str]]:
    """Map each refused key to a row with nonsense under it and the refusal's message; `""`: a row without any key."""
    row = rows_of(target)[0]
    wrong = {key: {**row.task, key: {"nonsense": [1]}} for key in row.task}
    refused: dict[str, tuple[Row, str]] = {}
    async with peer_of(target) as peer:
        for key, task in {**wrong, "": {}}.items():
            broken = row.model_copy(update={"task": task})
            try:
                await judge(peer, broken, empty_answer(broken))
            except RowError as error:
                refused[key] = (broken, error.message)
    return refused


async def wrong_rows_are_422(target: ServerTarget) -> None:
    refused = await refused_rows(target)
    if not refused:
        raise NotApplicable("no row is refused")
    broken = refused.get("", next(iter(refused.values())))[0]
    status, wire = await post(target, "/verify", {**broken.to_wire(), "response": {"output": []}})
    expect(status == 422, f"a wrong row answered {status}")
    expect(wire.get("error", {}).get("owner") == "row", f"its error is not the row's: {str(wire)[:200]}")
    expect("reward" not in wire, "a refused row carries a reward")


async def failures_carry_no_reward(target: ServerTarget) -> None:
    for body in (b"{", b"[]", b"{}", b'{"responses_create_params": {"input": 5}, "response": {}}'):
        status, wire = await post(target, "/verify", body)
        expect(status >= 400, f"{body.decode()} was judged: {status}")
        expect("reward" not in wire and "error" in wire, f"{body.decode()}: {str(wire)[:200]}")


async def verify_echoes_its_request(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    body = {**row.to_wire(), "response": empty_answer(row)}
    status, wire = await post(target, "/verify", body)
    expect(status == 200, f"answered {status}: {str(wire)[:200]}")
    missing = [key for key, value in body.items() if wire.get(key) != value]
    expect(not missing, f"these keys of the request are not in the reply as they were: {missing}")
    expect(isinstance(wire.get("reward"), int | float), "the reply has no reward")


async def seed_gives_nothing_away(target: ServerTarget) -> None:
    async with peer_of(target) as peer:
        for number, row in enumerate(rows_of(target), 1):
            session = orjson.dumps((await peer.call(SEED, row, Call())).model_dump()).decode()
            seen = orjson.dumps(row.responses_create_params).decode()
            for text in _texts(good_answer(target, row)["output"]):
                quoted = orjson.dumps(text).decode()[1:-1]
                hidden = len(text) >= MIN_SECRET_CHARS and quoted not in seen
                expect(not (hidden and quoted in session), f"row {number}: the session tells {text[:60]!r}")


async def seed_can_be_repeated(target: ServerTarget) -> None:
    async with peer_of(target) as peer:
        for row in rows_of(target)[:5]:
            await peer.call(SEED, row, Call())
            await peer.call(SEED, row, Call())
            expect(await judge(peer, row, empty_answer(row)) is not None, "no verdict after two seeds")


async def means_leave_failures_out(target: ServerTarget) -> None:
    judged: list[JsonObject] = [{"reward": 1.0, "_ng_task_index": 0}, {"reward": 0.0, "_ng_task_index": 1}]
    failed: list[JsonObject] = [
        {"_ng_task_index": 2},
        {"reward": 0.0, "_ng_failure_class": "judge", "_ng_task_index": 3},
    ]
    async with peer_of(target) as peer:
        alone = await peer.call(AGGREGATE, AggregateRequest(verify_responses=judged), Call())
        among = await peer.call(AGGREGATE, AggregateRequest(verify_responses=[*judged, *failed]), Call())
    for key, value in alone.key_metrics.items():
        expect(
            among.key_metrics.get(key) == value, f"{key}: {value}, with failures beside it {among.key_metrics.get(key)}"
        )


async def unknown_config_is_refused(target: ServerTarget) -> None:
    try:
        target.build(no_such_key=1)
    except ConfigError as error:
        expect("no_such_key" in error.message, f"the refusal does not name the key: {error.message}")
        return
    raise AssertionError("a config key that does not exist was accepted")


async def can_start_again(target: ServerTarget) -> None:
    row = rows_of(target)[0]
    verdicts = []
    for _ in range(2):
        async with peer_of(target) as peer:
            verdicts.append(await judge(peer, row, empty_answer(row)))
    expect(verdicts[0] == verdicts[1], "a server that was started again judges differently")


async def post(target: ServerTarget, path: str, body: Any) -> tuple[int, JsonObject]:
    """Status and body of a POST through the server's app."""
    server = target.build()
    await server.start()
    try:
        app = httpx.ASGITransport(build_app(server))
        async with httpx.AsyncClient(transport=app, base_url="http://target") as client:
            content = body if isinstance(body, bytes) else orjson.dumps(body)
            reply = await client.post(path, content=content, headers={"content-type": "application/json"})
            wire = orjson.loads(reply.content)
            return reply.status_code, wire if isinstance(wire, dict) else {}
    finally:
        await server.stop()


def _texts(node: Any) -> Sequence[str]:
    """Collect the strings of a tree but for types, ids, roles and names."""
    if isinstance(node, dict):
        shown = (value for key, value in node.items() if key not in ("type", "id", "call_id", "status", "role", "name"))
        return [text for value in shown for text in _texts(value)]
    if isinstance(node, list):
        return [text for item in node for text in _texts(item)]
    return [node] if isinstance(node, str) else []


SUITE = [
    Behaviour("it has example rows", has_rows),
    Behaviour("known-good turns score 1", good_scores_one),
    Behaviour("an answer without items scores 0", empty_scores_zero),
    Behaviour("a verdict has a finite reward, finite metrics and a short key as its reason", verdicts_are_usable),
    Behaviour("whatever a policy answers is judged, and nonsense earns nothing", odd_answers_are_judged),
    Behaviour("the same row and answer get the same verdict", is_deterministic),
    Behaviour("judging changes neither row nor answer", leaves_requests_alone),
    Behaviour("concurrent calls do not interfere", concurrent_calls_do_not_interfere),
    Behaviour("verdicts are the same directly, over ASGI and over HTTP", transports_agree),
    Behaviour("a wrong row is refused by the key that is wrong", wrong_rows_name_their_key),
    Behaviour("a wrong row is 422, of owner row", wrong_rows_are_422),
    Behaviour("a refused request carries no reward", failures_carry_no_reward),
    Behaviour("the reply of /verify echoes its request", verify_echoes_its_request),
    Behaviour("a session tells nothing of the known-good answer", seed_gives_nothing_away),
    Behaviour("a session can be opened twice", seed_can_be_repeated),
    Behaviour("failures enter no mean", means_leave_failures_out),
    Behaviour("an unknown config key is refused by name", unknown_config_is_refused),
    Behaviour("it can be stopped and started again", can_start_again),
]
