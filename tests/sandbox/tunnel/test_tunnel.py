"""Claims about a tunnel, over real sockets: what passes, what is turned away, and how things end."""

import asyncio
import re
from typing import Any

import httpx
import orjson
import pytest

from paddock.errors import InfraError, LeakError
from paddock.http.transport import make_client
from paddock.sandbox.tunnel import HttpUpstream, Tunnel, TunnelRefusal, TunnelSettings
from paddock.testing.upstream import ScriptedAnswer, ScriptedUpstream, first

SECRET = "ro_0123456789abcdef"


def port_of(tunnel: Tunnel) -> int:
    return int(tunnel.base_url.rpartition(":")[2].partition("/")[0])


async def spoken(tunnel: Tunnel, text: str, *, wait_s: float = 5.0) -> str:
    """What comes back for raw bytes, until the other side closes; it is told when its answer is whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(text.encode())
    async with asyncio.timeout(wait_s):
        answer = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"(?i)content-length: (\d+)", answer):
            answer += await reader.readexactly(int(length[1]))
            writer.write_eof()
        answer += await reader.read()
    writer.close()
    return answer.decode()


def raw(method: str, target: str, body: str = "", host: str = "127.0.0.1", **headers: str) -> str:
    lines = [f"{method} {target} HTTP/1.1", f"host: {host}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, *([f"content-length: {len(body)}"] if body else []), "", body])


def said(text: str) -> str:
    return orjson.dumps({"input": text}).decode()


async def until(holds: Any, *, wait_s: float = 60.0) -> None:
    async with asyncio.timeout(wait_s):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/messages?beta=true"),
        ("GET", "/v1/models"),
    ],
)
async def test_model_calls_pass_whole_with_their_answers(
    open_tunnel: Any, upstream: Any, method: str, path: str
) -> None:
    tunnel = await open_tunnel()
    async with make_client() as client:
        url = tunnel.base_url.removesuffix("/v1") + path
        reply = await client.request(method, url, content=b"{}" if method == "POST" else None)
    assert (reply.status_code, reply.content) == (200, b"data: 1\n\ndata: 2\n\n")
    assert [(one.method, one.path, one.body) for one in upstream.asked] == [
        (method, path.partition("?")[0], b"{}" if method == "POST" else b"")
    ]


async def test_a_stream_passes_part_by_part_as_it_comes(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel()
    async with make_client() as client, client.stream("POST", tunnel.base_url + "/responses", content=b"{}") as reply:
        parts = reply.aiter_raw()
        assert await anext(parts) == b"data: 1\n\n"
        upstream.go.set()
        assert await anext(parts) == b"data: 2\n\n"


async def test_keys_cookies_and_names_of_the_client_stay_with_it(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    sent = {
        "authorization": "Bearer dummy",
        "x-api-key": "dummy",
        "cookie": "a=b",
        "x-paddock-rollout": "ro_other",
        "x-request-id": "mine",
        "te": "trailers",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }
    async with make_client() as client:
        await client.post(tunnel.base_url + "/messages", content=b"{}", headers=sent)
    (asked,) = upstream.asked
    assert set(asked.headers) <= {"accept", "anthropic-version", "content-type"}
    assert asked.headers["anthropic-version"] == "2023-06-01"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (raw("POST", "/v1/embeddings", "{}"), 403),
        (raw("GET", "/"), 403),
        (raw("GET", "/r/ro_other/turns"), 403),
        (raw("POST", "/v1/../r/ro_other/v1/responses", "{}"), 403),
        (raw("POST", "/v1/%72esponses", "{}"), 403),
        (raw("POST", "/v1/responses/", "{}"), 403),
        (raw("POST", "http://127.0.0.1/v1/responses", "{}"), 403),
        (raw("CONNECT", "example.org:443"), 403),
        (raw("POST", "/v1/responses", "{}", host="example.org"), 403),
        (raw("POST", "/v1/responses", "{}", host="127.0.0.1.example.org"), 403),
        (raw("DELETE", "/v1/responses"), 405),
        (raw("GET", "/v1/responses"), 405),
        ("hello\r\n\r\n", 400),
        ("POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: x\r\n\r\n", 400),
        ("POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nlong: " + "x" * 100_000, 431),
        (raw("POST", "/v1/responses", host="127.0.0.1", **{"content-length": "99999999999"}), 413),
    ],
)
async def test_all_else_is_turned_away_with_a_reason(open_tunnel: Any, upstream: Any, text: str, status: int) -> None:
    answer = await spoken(await open_tunnel(), text)
    head, _, body = answer.partition("\r\n\r\n")
    assert head.split()[1] == str(status)
    assert orjson.loads(body)["error"]["message"]
    assert upstream.asked == []


async def test_a_body_past_the_bound_is_refused_however_it_is_sent(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel(settings=TunnelSettings(max_body_bytes=1000))
    chunked = "POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = await spoken(tunnel, chunked + f"{2000:x}\r\n{'a' * 2000}\r\n0\r\n\r\n")
    assert answer.split()[1] == "413"
    assert upstream.asked == []


async def test_a_request_that_drips_is_given_up(open_tunnel: Any) -> None:
    tunnel = await open_tunnel(settings=TunnelSettings(request_timeout_s=0.1))
    assert (await spoken(tunnel, "POST /v1/resp")).split()[1] == "408"


async def test_a_client_that_waits_for_a_go_ahead_gets_it(open_tunnel: Any) -> None:
    tunnel = await open_tunnel()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(
        raw("POST", "/v1/responses", host="localhost", **{"content-length": "2", "expect": "100-continue"}).encode()
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    writer.write(b"{}")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_connection_carries_one_exchange(open_tunnel: Any, upstream: Any) -> None:
    two = raw("POST", "/v1/responses", "{}") * 2
    answer = await spoken(await open_tunnel(), two)
    assert answer.lower().count("connection: close") == 1
    assert len(upstream.asked) == 1


async def test_an_old_client_gets_a_body_that_ends_with_the_connection(open_tunnel: Any) -> None:
    answer = await spoken(
        await open_tunnel(), "POST /v1/responses HTTP/1.0\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert answer.endswith("\r\n\r\ndata: 1\n\ndata: 2\n\n")
    assert "chunked" not in answer.lower()


async def test_a_model_out_of_reach_is_502_and_a_failure_that_shows_outside(open_tunnel: Any, upstream: Any) -> None:
    upstream.fails_before = InfraError(f"http://host/r/{SECRET}/v1: refused", kind="connection")
    tunnel = await open_tunnel(hidden=[SECRET])
    answer = await spoken(tunnel, raw("POST", "/v1/responses", "{}"))
    assert answer.split()[1] == "502"
    assert SECRET not in answer
    assert tunnel.failure is not None
    assert SECRET not in tunnel.failure.message
    upstream.fails_before = None
    await spoken(tunnel, raw("POST", "/v1/responses", "{}"))
    assert tunnel.failure is None


async def test_a_cut_stream_is_never_ended_as_if_it_were_whole(open_tunnel: Any, upstream: Any) -> None:
    upstream.fails_after = ConnectionResetError("cut")
    tunnel = await open_tunnel()
    async with make_client() as client:
        with pytest.raises(httpx.HTTPError):
            await client.post(tunnel.base_url + "/responses", content=b"{}")
    assert tunnel.failure is not None


@pytest.mark.parametrize(("status", "ours"), [(400, False), (404, False), (429, True)])
async def test_errors_of_the_model_server_pass_without_what_is_hidden(
    open_tunnel: Any, upstream: Any, status: int, ours: bool
) -> None:
    upstream.status, upstream.parts = status, [b'{"error": "at /r/', SECRET.encode(), b'/v1"}']
    upstream.headers = {"content-type": "application/json", "retry-after": "7"}
    tunnel = await open_tunnel(hidden=[SECRET])
    async with make_client() as client:
        reply = await client.post(tunnel.base_url + "/responses", content=b"{}")
    assert (reply.status_code, reply.text, reply.headers["retry-after"]) == (status, '{"error": "at /r/.../v1"}', "7")
    assert (tunnel.failure is not None) == ours


async def test_a_client_that_hangs_up_ends_its_call(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel()
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(raw("POST", "/v1/responses", "{}").encode())
    await until(lambda: upstream.running == 1)
    writer.close()
    await until(lambda: upstream.running == 0)
    assert tunnel.failure is None


@pytest.mark.slow
async def test_a_client_that_does_not_read_holds_up_nobody_and_is_dropped(open_tunnel: Any, upstream: Any) -> None:
    upstream.parts = [b"x" * (1 << 20)] * 32
    tunnel = await open_tunnel(settings=TunnelSettings(write_timeout_s=2.0))
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel), limit=1024)
    writer.write(raw("POST", "/v1/responses", "{}").encode())
    await until(lambda: upstream.running == 1)
    async with make_client() as client:
        reply = await client.post(tunnel.base_url + "/responses", content=b"{}")
    assert len(reply.content) == 32 << 20
    await until(lambda: upstream.running == 0)
    writer.close()


async def test_many_at_once_do_not_mix(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    async with make_client() as client:
        bodies = [f'{{"input":"{n}"}}'.encode() for n in range(40)]
        replies = await asyncio.gather(*(client.post(tunnel.base_url + "/responses", content=body) for body in bodies))
    assert {reply.status_code for reply in replies} == {200}
    assert sorted(one.body for one in upstream.asked) == sorted(bodies)


async def test_one_connection_too_many_is_told_so(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel(settings=TunnelSettings(max_connections=1))
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(raw("POST", "/v1/responses", "{}").encode())
    await until(lambda: upstream.running == 1)
    assert (await spoken(tunnel, raw("POST", "/v1/responses", "{}"))).split()[1] == "503"
    writer.close()


async def test_open_calls_hold_no_more_than_they_may_together(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel(settings=TunnelSettings(max_held_bytes=1500))
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(raw("POST", "/v1/responses", said("a" * 1000)).encode())
    await until(lambda: upstream.running == 1)
    assert (await spoken(tunnel, raw("POST", "/v1/responses", said("b" * 1000)))).split()[1] == "503"
    writer.close()
    await until(lambda: upstream.running == 0)
    upstream.go = None
    assert (await spoken(tunnel, raw("POST", "/v1/responses", said("c" * 1000)))).split()[1] == "200"


async def test_a_call_can_have_a_time_limit(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel(settings=TunnelSettings(call_timeout_s=0.1))
    answer = await spoken(tunnel, raw("POST", "/v1/responses", "{}"))
    assert not answer.endswith("0\r\n\r\n")
    assert tunnel.failure is not None
    assert "in time" in tunnel.failure.message


async def test_closing_cuts_what_is_open_and_refuses_the_rest(open_tunnel: Any, upstream: Any) -> None:
    upstream.go = asyncio.Event()
    tunnel = await open_tunnel()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(tunnel))
    writer.write(raw("POST", "/v1/responses", "{}").encode())
    await reader.readuntil(b"data: 1\n\n")
    await tunnel.close()
    assert upstream.running == 0
    assert not (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port_of(tunnel))


async def test_a_call_that_its_reader_objects_to_is_not_passed_on(open_tunnel: Any, upstream: Any) -> None:
    def look(body: bytes) -> None:
        if b"canary" in body:
            raise LeakError("seen", kind="canary")

    tunnel = await open_tunnel(inspect=look)
    assert (await spoken(tunnel, raw("POST", "/v1/responses", said("a canary")))).split()[1] == "403"
    assert (await spoken(tunnel, raw("POST", "/v1/responses", "{}"))).split()[1] == "200"
    assert (tunnel.calls, tunnel.refusals, len(upstream.asked)) == (1, 1, 1)


async def test_behind_a_url_the_key_and_the_path_are_those_of_the_host(open_tunnel: Any) -> None:
    async with ScriptedUpstream(ScriptedAnswer("One small step.")) as server, make_client() as client:
        tunnel = await open_tunnel(HttpUpstream(client, server.url, api_key="real"))
        body = orjson.dumps({"model": "any", "input": "What next?", "stream": True})
        reply = await client.post(tunnel.base_url + "/responses", content=body, headers={"authorization": "Bearer x"})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "response.completed" in reply.text


async def test_a_url_that_cuts_its_stream_is_cut_inside_too(open_tunnel: Any) -> None:
    async with (
        ScriptedUpstream(ScriptedAnswer("One."), faults=first(1, "half_body")) as server,
        make_client() as client,
    ):
        tunnel = await open_tunnel(HttpUpstream(client, server.url))
        body = orjson.dumps({"model": "any", "input": "What next?", "stream": True})
        with pytest.raises(httpx.HTTPError):
            await client.post(tunnel.base_url + "/responses", content=body)
    assert tunnel.failure is not None


async def test_a_url_where_nobody_listens_is_502(open_tunnel: Any) -> None:
    async with make_client() as client:
        tunnel = await open_tunnel(HttpUpstream(client, "http://127.0.0.1:9/v1"))
        reply = await client.post(tunnel.base_url + "/responses", content=b"{}")
    assert reply.status_code == 502


async def test_a_call_that_comes_again_after_its_answer_had_begun_is_noticed(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    async with make_client() as client:
        noticed = []
        for status, body in ((500, b"{}"), (200, b"{}"), (200, said("more").encode()), (200, b"{}")):
            upstream.status = status
            await client.post(f"{tunnel.base_url}/responses", content=body)
            noticed.append(tunnel.call_repeated)
    assert noticed == [False, False, False, True]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"x-api-key": "kee"}, 401),
        ({"authorization": "Bearer key"}, 200),
        ({"x-api-key": "key"}, 200),
    ],
)
async def test_a_tunnel_with_a_key_takes_no_call_without_it(
    open_tunnel: Any, upstream: Any, headers: dict[str, str], status: int
) -> None:
    tunnel = await open_tunnel(api_key="key")
    async with make_client() as client:
        reply = await client.post(tunnel.base_url + "/responses", content=b"{}", headers=headers)
    assert reply.status_code == status
    assert len(upstream.asked) == (status == 200)
    assert (tunnel.calls, tunnel.refusals) == ((1, 0) if status == 200 else (0, 1))


async def test_a_screen_changes_what_goes_on_and_turns_away_what_does_not(open_tunnel: Any, upstream: Any) -> None:
    def screen(path: str, body: bytes) -> bytes:
        if b"title" in body:
            raise TunnelRefusal(403, "refused", "no part of the task")
        return body.replace(b"today", path.encode())

    tunnel = await open_tunnel(screen=screen)
    async with make_client() as client:
        passed = await client.post(tunnel.base_url + "/responses", content=said("today"))
        turned = await client.post(tunnel.base_url + "/responses", content=said("title"))
    assert (passed.status_code, turned.status_code) == (200, 403)
    assert [one.body for one in upstream.asked] == [said("/v1/responses").encode()]
    assert (tunnel.calls, tunnel.refusals) == (1, 1)


async def test_an_overflow_is_noticed_until_a_later_call_is_answered(open_tunnel: Any, upstream: Any) -> None:
    tunnel = await open_tunnel()
    noticed = []
    async with make_client() as client:
        for status, body in ((400, b'{"error": {"code": "context_length_exceeded"}}'), (400, b"{}"), (200, b"{}")):
            upstream.status, upstream.parts = status, [body]
            await client.post(tunnel.base_url + "/responses", content=body)
            noticed.append(tunnel.overflowed)
    assert noticed == [True, False, False]


async def test_a_closed_tunnel_says_that_it_has_ended(open_tunnel: Any) -> None:
    tunnel = await open_tunnel()
    assert not tunnel.ended.is_set()
    await tunnel.close()
    assert tunnel.ended.is_set()
