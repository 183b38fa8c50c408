"""Claims about endpoints that fail: what may pass is tried again for a stated time; a failure is never an answer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from paddock.errors import InfraError, RequestError, from_wire
from paddock.http import PLAIN_RESPONSES, Call
from paddock.models_servers.genrm import GenrmModelServer
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.testing import ErrorStatus, ScriptedAnswer, ScriptedUpstream, first, over
from paddock.types.responses import messages

Judging = Callable[..., Any]
ASKED = {"input": "which?", "metadata": {"response_1": "a", "response_2": "b"}}


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "fault", [ErrorStatus(503), ErrorStatus(429), ErrorStatus(408), "drop", "not_json", "not_an_answer", "engine_error"]
)
async def test_what_may_pass_is_tried_again(judging: Judging, fault: Any) -> None:
    async with ScriptedUpstream(faults=first(3, fault)) as upstream, judging(upstream) as (client, _):
        got = await client.ask("responses", ASKED)
    assert (got.status, messages(got.body), upstream.calls) == (200, ["ok"], 4)


@pytest.mark.parametrize(
    ("status", "cls", "kind"),
    [
        (ErrorStatus(401), InfraError, "upstream_auth"),
        (ErrorStatus(404), InfraError, "upstream_not_found"),
        (ErrorStatus(400, "maximum context length is 9"), RequestError, "context_length_exceeded"),
    ],
)
async def test_what_will_not_pass_is_told_at_once(judging: Judging, status: ErrorStatus, cls: type, kind: str) -> None:
    async with (
        ScriptedUpstream(faults=first(9, status)) as upstream,
        judging(upstream, api_key="geheim") as (client, _),
    ):
        got = await client.ask("responses", ASKED)
    error = from_wire(got.status, got.body)
    assert (type(error), error.kind, error.retryable, upstream.calls) == (cls, kind, False, 1)
    assert "geheim" not in error.message


async def test_an_outage_ends_with_its_time(judging: Judging) -> None:
    async with (
        ScriptedUpstream(faults=first(999, ErrorStatus(500))) as upstream,
        judging(upstream, retry_for_s=0.05) as (client, _),
    ):
        got = await client.ask("responses", ASKED)
    error = from_wire(got.status, got.body)
    assert (error.owner, error.kind, error.retryable) == ("infra", "upstream_status", True)
    assert 1 < upstream.calls < 60


async def test_an_endpoint_that_wants_rest_gets_it(judging: Judging) -> None:
    async with (
        ScriptedUpstream(faults=first(1, ErrorStatus(503, retry_after_s=30))) as upstream,
        judging(upstream, max_retry_s=0.2) as (client, _),
    ):
        begun = asyncio.get_running_loop().time()
        got = await client.ask("responses", ASKED)
    assert (got.status, upstream.calls) == (200, 2)
    assert asyncio.get_running_loop().time() - begun >= 0.2


async def test_an_endpoint_that_hangs_is_left_after_its_time(judging: Judging) -> None:
    async with ScriptedUpstream(faults=first(1, "hang")) as upstream, judging(upstream, timeout_s=0.2) as (client, _):
        got = await client.ask("responses", ASKED)
    assert got.status == 200
    assert upstream.calls > 1


async def test_a_caller_waits_no_longer_than_it_says() -> None:
    async with ScriptedUpstream(faults=first(999, ErrorStatus(500, "out of cards"))) as upstream:
        settings = {"model": "judge", "base_url": upstream.url, "first_retry_s": 60, "max_retry_s": 60}
        server = GenrmModelServer(GenrmModelConfig.model_validate(settings), name="judge", peers={})
        async with over("asgi", server) as peers:
            with pytest.raises(InfraError) as error:
                await peers["judge"].call(PLAIN_RESPONSES, ASKED, Call().within(2.0))
    assert upstream.calls == 1
    assert error.value.retryable


async def test_endpoints_take_turns_and_one_that_failed_is_passed_over(judging: Judging) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer("one")) as one,
        ScriptedUpstream(ScriptedAnswer("two")) as two,
        judging(one, two, cache_entries=0, first_retry_s=60, max_retry_s=60) as (client, server),
    ):
        said = [messages((await client.ask("responses", ASKED)).body)[0] for _ in range(4)]
        assert sorted(said) == ["one", "one", "two", "two"]
        assert said[0] != said[1]
        one.faults = first(10**9, ErrorStatus(500))
        said = [messages((await client.ask("responses", ASKED)).body)[0] for _ in range(4)]
        assert said == ["two"] * 4
        assert one.calls == 3, "its failure was met once, and gone around at once"
        assert "500" in server.endpoints.last_errors


async def test_no_more_are_asked_at_once_than_allowed(judging: Judging) -> None:
    async with ScriptedUpstream(delay_s=0.02) as upstream, judging(upstream, max_concurrency=3) as (client, _):
        bodies = [{**ASKED, "metadata": {**ASKED["metadata"], "try": str(nth)}} for nth in range(10)]  # type: ignore[dict-item]
        await asyncio.gather(*(client.ask("responses", body) for body in bodies))
    assert (upstream.calls, upstream.most_in_flight) == (10, 3)


async def test_nothing_is_left_of_a_request_that_was_given_up(judging: Judging) -> None:
    async with ScriptedUpstream(faults=first(1, "hang")) as upstream, judging(upstream) as (client, server):
        asking = asyncio.create_task(client.ask("responses", ASKED))
        await until(lambda: upstream.in_flight)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: upstream.n_cancelled)
        assert server.client.exchanges == 1
