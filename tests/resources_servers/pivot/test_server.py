"""Claims about the pivot server that hold over direct calls, ASGI and HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import orjson
import pytest

from paddock.errors import RowError
from paddock.http import AGGREGATE, SEED, VERIFY, AggregateRequest, Call, Peer, VerifyRequest, read_row
from paddock.resources_servers.pivot import PivotServer
from paddock.resources_servers.pivot.server import PivotConfig
from paddock.testing import TRANSPORTS, Transport, over
from paddock.types import JsonObject, Row, Session
from paddock.types.responses import call_item, make_response

PYTEST = '{"command": "pytest -q tests"}'
Open = Callable[..., AbstractAsyncContextManager[Peer]]


def row(name: str = "bash", arguments: str = PYTEST, **more: Any) -> Row:
    action = {"type": "function_call", "name": name, "arguments": arguments}
    return read_row({"responses_create_params": {"input": "x"}, "expected_action": action, **more})


def asked(of: Row, *output: JsonObject) -> VerifyRequest:
    return VerifyRequest(row=of, response=make_response(output, {}, model="m"))


@pytest.fixture(params=TRANSPORTS)
def open_pivot(request: pytest.FixtureRequest) -> Open:
    transport: Transport = request.param

    @asynccontextmanager
    async def open_one(**config: Any) -> AsyncIterator[Peer]:
        server = PivotServer(PivotConfig.model_validate(config), name="pivot", peers={})
        async with over(transport, server) as peers:
            yield peers["pivot"]

    return open_one


@pytest.mark.parametrize("comparator", ["compat", "layered", "semantic"])
async def test_every_verdict_names_its_comparator_and_says_why(open_pivot: Open, comparator: str) -> None:
    async with open_pivot(comparator=comparator) as pivot:
        right = await pivot.call(VERIFY, asked(row(), call_item("bash", PYTEST)), Call())
        wrong = await pivot.call(VERIFY, asked(row(), call_item("read", '{"filePath": "a.py"}')), Call())
    assert (right.reward, right.comparator) == (1.0, comparator)
    assert (wrong.reward, wrong.comparator) == (0.0, comparator)
    assert wrong.reason != right.reason
    assert wrong.detail


async def test_a_row_says_where_its_tools_run(open_pivot: Open) -> None:
    entered = call_item("bash", '{"command": "cd /r && pytest -q tests"}')
    async with open_pivot() as pivot:
        for more, reward in (({}, 0.0), ({"cwd": "/r"}, 1.0), ({"metadata": {"cwd": "/r"}}, 1.0), ({"cwd": "/q"}, 0.0)):
            verdict = await pivot.call(VERIFY, asked(row(**more), entered), Call())
            assert verdict.reward == reward, more
        with pytest.raises(RowError, match="cwd: 'r' is no absolute path"):
            await pivot.call(VERIFY, asked(row(cwd="r"), entered), Call())
    async with open_pivot(comparator="compat") as pivot:
        assert (await pivot.call(VERIFY, asked(row(cwd="r"), call_item("bash", PYTEST)), Call())).reward == 1.0


@pytest.mark.parametrize("comparator", ["compat", "layered", "semantic"])
async def test_rows_that_expect_only_words_are_named_as_weak(open_pivot: Open, comparator: str) -> None:
    message = read_row(
        {"responses_create_params": {"input": "x"}, "expected_action": {"type": "message", "content": "Which one?"}}
    )
    rows = [(message, 1.0), (row("finish", '{"message": "Done."}'), 1.0), (row(), 0.0)]
    async with open_pivot(comparator=comparator) as pivot:
        for one, weak in rows:
            for output in ([], [call_item("bash", PYTEST)]):
                verdict = await pivot.call(VERIFY, asked(one, *output), Call())
                assert verdict.metrics["weak_row"] == weak


async def test_semantic_is_the_default(open_pivot: Open) -> None:
    async with open_pivot() as pivot:
        verdict = await pivot.call(VERIFY, asked(row(), call_item("bash", '{"command": "rm -rf /tmp/x"}')), Call())
    assert (verdict.reward, verdict.comparator) == (0.0, "semantic")


async def test_a_session_shows_an_agent_nothing_of_the_expert(open_pivot: Open) -> None:
    async with open_pivot() as pivot:
        session = await pivot.call(SEED, row(), Call())
    assert session == Session()


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ({}, "expected_action: missing"),
        ({"expected_action": 5}, "expected_action"),
        ({"expected_action": {"type": "shrug"}}, "shrug"),
        ({"expected_action": {"type": "function_call", "name": "bash", "arguments": "{"}}, "expected_action"),
        ({"expected_action": {"type": "function_call_batch", "calls": []}}, "calls"),
        ({"expected_answer": "{not json"}, "expected_answer: not JSON"),
        ({"metadata": {"expected_action": {"type": "function_call"}}}, "metadata.expected_action"),
        (
            {
                "expected_action": {
                    "type": "function_call",
                    "name": "apply_patch",
                    "arguments": '{"input": "*** Begin Patch\\n*** Nonsense"}',
                }
            },
            "expected_action: the expert's call of apply_patch cannot be read",
        ),
    ],
)
async def test_a_row_without_a_usable_action_is_the_rows_fault(open_pivot: Open, task: JsonObject, named: str) -> None:
    bad = read_row({"responses_create_params": {"input": "x"}, **task})
    async with open_pivot() as pivot:
        with pytest.raises(RowError) as seeding:
            await pivot.call(SEED, bad, Call())
        with pytest.raises(RowError) as verifying:
            await pivot.call(VERIFY, asked(bad, call_item("bash", PYTEST)), Call())
    assert named in seeding.value.message
    assert named in verifying.value.message


@pytest.mark.parametrize("key", ["expected_answer", "metadata"])
async def test_the_expected_action_is_found_where_either_published_form_has_it(open_pivot: Open, key: str) -> None:
    action = {"type": "function_call", "name": "bash", "arguments": PYTEST}
    value = orjson.dumps(action).decode() if key == "expected_answer" else {"expected_action": action}
    published = read_row({"responses_create_params": {"input": "x"}, key: value})
    async with open_pivot() as pivot:
        verdict = await pivot.call(VERIFY, asked(published, call_item("bash", PYTEST)), Call())
    assert verdict.reward == 1.0


async def test_keys_that_no_comparator_reads_are_kept(open_pivot: Open) -> None:
    kept = row(uuid="u-1", pivot_tags=["P1"], dataset={"name": "d"})
    async with open_pivot(comparator="compat") as pivot:
        verdict = await pivot.call(VERIFY, asked(kept, call_item("bash", PYTEST)), Call())
    assert kept.to_wire()["pivot_tags"] == ["P1"]
    assert not set(verdict.extras) & set(kept.to_wire())


async def test_metrics_are_means_over_verify_replies(open_pivot: Open) -> None:
    replies = [{"reward": 1.0, "_ng_task_index": 0}, {"reward": 0.0, "_ng_task_index": 1}, {"_ng_task_index": 2}]
    async with open_pivot() as pivot:
        found = await pivot.call(AGGREGATE, AggregateRequest(verify_responses=replies), Call())
    assert found.agent_metrics == {"mean/reward": 0.5, "pass@1/accuracy": 0.5, "failures": 1.0}


@pytest.mark.slow
async def test_a_long_response_is_judged_beside_the_loop(open_pivot: Open) -> None:
    script = "; ".join(f"cat f{number}.txt && grep x a" for number in range(300))
    calls = [call_item("bash", json.dumps({"command": script.replace(" ", "  ")}))]
    async with open_pivot() as pivot:
        verdict = asyncio.create_task(
            pivot.call(VERIFY, asked(row(arguments=json.dumps({"command": script})), *calls), Call())
        )
        turns = 0
        while not verdict.done():
            await asyncio.sleep(0)
            turns += 1
    assert (await verdict).reward == 1.0
    assert turns > 50


async def test_more_text_than_is_judged_is_not_decided(open_pivot: Open) -> None:
    long = call_item("bash", json.dumps({"command": "ls; " * 130_000}))
    async with open_pivot() as pivot:
        verdict = await pivot.call(VERIFY, asked(row(), long), Call())
    assert (verdict.reward, verdict.reason) == (0.0, "too_long")
    assert "not decided" in str(verdict.detail)
