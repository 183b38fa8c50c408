"""Claims about the relay that fails on cue: what is not to fail comes as the engine gave it."""

from collections.abc import Callable

import aiohttp
import pytest

from paddock.testing.upstream import ErrorStatus, Fault, FaultyRelay, ScriptedAnswer, ScriptedUpstream, first

BODY = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
PATH = "/v1/chat/completions"


async def ask(url: str, **body: object) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(url + PATH, json={**BODY, **body}) as reply:
        return reply.status, await reply.read()


@pytest.mark.parametrize("stream", [True, False])
async def test_answers_pass_and_are_counted_once_it_is_armed(*, stream: bool) -> None:
    async with ScriptedUpstream(ScriptedAnswer("hello")) as upstream, FaultyRelay(root(upstream)) as relay:
        await ask(relay.url)
        assert relay.calls == 0
        relay.arm()
        status, content = await ask(relay.url, stream=stream)
        assert (status, relay.calls, upstream.calls) == (200, 1, 2)
        assert b"hello" in content
        assert content.endswith(b"data: [DONE]\n\n") == stream


@pytest.mark.parametrize(
    ("fault", "fails"),
    [
        (ErrorStatus(429, "busy"), lambda found: found[0] == 429 and b"busy" in found[1]),
        ("not_json", lambda found: found == (200, b"<html>no JSON</html>")),
        ("not_an_answer", lambda found: found == (200, b'{"hello": "world"}')),
        ("engine_error", lambda found: found[0] == 200 and b"error" in found[1]),
    ],
)
async def test_a_call_fails_on_cue_and_the_next_does_not(
    fault: Fault, fails: Callable[[tuple[int, bytes]], bool]
) -> None:
    async with ScriptedUpstream(ScriptedAnswer("hello")) as upstream:
        async with FaultyRelay(root(upstream), faults=first(1, fault)) as relay:
            relay.arm()
            assert fails(await ask(relay.url))
            assert b"hello" in (await ask(relay.url))[1]
        assert upstream.calls == 1


@pytest.mark.parametrize("fault", ["drop", "half_body"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_connection_breaks_on_cue(fault: Fault, *, stream: bool) -> None:
    upstream = ScriptedUpstream(ScriptedAnswer("hello"))
    async with upstream, FaultyRelay(root(upstream), faults=first(1, fault)) as relay:
        relay.arm()
        with pytest.raises(aiohttp.ClientError):
            await ask(relay.url, stream=stream)


def root(upstream: ScriptedUpstream) -> str:
    return upstream.url.removesuffix("/v1")
