"""Answers that are none, and answers that are a model's own, each broken in one way: a real endpoint that gives them.

Shapes  `CASES` by name; the request names the case in its text as `CASE-name`. A case changes the whole body of an
        honest answer, or says what comes on the wire in its place. A stream tells what the whole body says.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Self

import orjson

from paddock.types import JsonObject

NAME = "bash"
ARGUMENTS = '{"command": "pytest -q"}'
Api = Literal["chat", "responses"]
Change = Callable[[JsonObject], Any]
Owner = Literal["endpoint", "policy"]
Wire = Literal["hang", "reset", "close", "cut", "cut_chunked", "cut_fitting", "cut_open", "slow"]


class Case(NamedTuple):
    """`what`: as the documentation's table has it."""

    what: str
    whose: Owner
    kind: str
    """Of the failure; of a policy's answer the reason of its verdict."""
    chat: Change | None = None
    responses: Change | None = None
    wire: bytes | Wire | None = None
    streamed: str | None = None
    """The kind of the failure where it was asked as a stream; None: the same."""


def honest(api: Api) -> JsonObject:
    """The right call."""
    if api == "chat":
        call = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": ARGUMENTS}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "policy",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
        }
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": NAME, "arguments": ARGUMENTS}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "policy",
        "output": [item],
        "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14},
    }


def chat(message: Any = None, **choice: Any) -> Change:
    """In place of the honest message, and of keys of its choice."""

    def change(body: JsonObject) -> JsonObject:
        given = {} if message is None else {"message": message}
        return {**body, "choices": [{**body["choices"][0], **given, **choice}]}

    return change


def called(**function: Any) -> Change:
    """The honest call with other keys; a key that is None is left out."""

    def change(body: JsonObject) -> JsonObject:
        own = body["choices"][0]["message"]["tool_calls"][0]["function"] if "choices" in body else body["output"][0]
        own.update(function)
        for key in [key for key in function if function[key] is None]:
            del own[key]
        return body

    return change


def top(**keys: Any) -> Change:
    """The body with other keys; a key that is None is left out."""
    return lambda body: {key: value for key, value in {**body, **keys}.items() if value is not None}


def both(*changes: Change) -> Change:
    def change(body: JsonObject) -> Any:
        for each in changes:
            body = each(body)
        return body

    return change


def assistant(text: Any, **more: Any) -> JsonObject:
    return {"role": "assistant", "content": text, **more}


def item(content: Any = None, **more: Any) -> JsonObject:
    return {"type": "message", "role": "assistant", "content": content, **more}


def text_item(text: str) -> JsonObject:
    return item([{"type": "output_text", "text": text}])


NO_CHAT_TOKENS = top(usage={"prompt_tokens": 9, "completion_tokens": 0})
NO_TOKENS = top(usage={"input_tokens": 9, "output_tokens": 0})
DIED = {"message": "the engine died", "code": 502}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}


def failing(status: int, extra: str = "") -> bytes:
    body = b'{"error": {"message": "scripted", "code": null}}'
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{extra}connection: close\r\n\r\n".encode() + body


def plain(body: bytes, kind: str = "application/json") -> bytes:
    head = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return f"HTTP/1.1 200 OK\r\n{head}".encode() + body


# fmt: off
CASES: dict[str, Case] = {
    "no-reason": Case("no finish reason (`status`), nothing said", "endpoint", "upstream_no_finish_reason",
        chat(assistant(None), finish_reason=None), top(status=None, output=[])),
    "no-reason-text": Case("no finish reason, text", "endpoint", "upstream_no_finish_reason",
        chat(assistant("abc"), finish_reason=None)),
    "no-fields": Case("an empty message, no finish reason, no usage", "endpoint", "upstream_no_finish_reason",
        both(lambda body: {**body, "choices": [{"message": {}}]}, top(usage=None)),
        top(status=None, output=[], usage=None)),
    "status-unknown": Case("`status` that is no end", "endpoint", "upstream_no_finish_reason",
        None, top(status="queued")),
    "error-beside": Case("`error` beside an empty answer", "endpoint", "upstream_failed",
        both(chat(assistant(""), finish_reason="stop"), top(error=DIED)), top(error=DIED, output=[])),
    "error-beside-call": Case("`error` beside a right answer", "endpoint", "upstream_failed",
        top(error=DIED), top(error=DIED)),
    "error-inside": Case("`error` inside the choice or item", "endpoint", "upstream_failed",
        chat(assistant(None), error=DIED, finish_reason=None), top(output=[item([], error=DIED)])),
    "error-in-message": Case("`error` inside the message", "endpoint", "upstream_failed",
        chat(assistant("abc", error=DIED), finish_reason="stop")),
    "error-alone": Case("only an `error`", "endpoint", "upstream_failed",
        lambda _: {"error": DIED}, lambda _: {"error": DIED}),
    "abort": Case("finish reason `abort`", "endpoint", "upstream_failed", chat(assistant("ab"), finish_reason="abort")),
    "error-reason": Case("finish reason `error`, `status` `failed`", "endpoint", "upstream_failed",
        chat(assistant("ab"), finish_reason="error"), top(status="failed")),
    "no-choice": Case("no choice, no `output`", "endpoint", "upstream_no_message", top(choices=[]), top(output=None)),
    "choice-null": Case("a choice that is null", "endpoint", "upstream_no_message", top(choices=[None])),
    "choice-text": Case("a choice with `text` and no message", "endpoint", "upstream_no_message",
        top(choices=[{"text": "abc", "finish_reason": "stop"}])),
    "output-text": Case("`output` that is a text", "endpoint", "upstream_no_message", None, top(output="garbage")),
    "calls-text": Case("`tool_calls` that is a text", "endpoint", "upstream_bad_tool_call",
        chat(assistant(None, tool_calls="garbage"))),
    "calls-null": Case("`tool_calls` that holds null", "endpoint", "upstream_bad_tool_call",
        chat(assistant(None, tool_calls=[None]))),
    "no-function": Case("a call without `function`, or without a name", "endpoint", "upstream_bad_tool_call",
        chat(assistant(None, tool_calls=[{"id": "a", "type": "function"}])), called(name=None)),
    "name-number": Case("a tool's name that is a number", "endpoint", "upstream_bad_tool_call",
        called(name=5), called(name=5)),
    "arguments-object": Case("arguments that are an object", "endpoint", "upstream_bad_arguments",
        called(arguments={"command": "pytest -q"}), called(arguments={"command": "pytest -q"})),
    "no-call": Case("finish reason `tool_calls` without a call", "endpoint", "upstream_no_tool_call",
        chat(assistant(None), finish_reason="tool_calls")),
    "content-number": Case("content that is a number", "endpoint", "upstream_bad_content",
        chat(assistant(5), finish_reason="stop"), top(output=[item(5)])),
    "content-parts": Case("content with a part that is a number", "endpoint", "upstream_bad_content",
        chat(assistant([5]), finish_reason="stop"), top(output=[item([5])])),
    "text-field": Case("`text` in place of `content`", "endpoint", "upstream_bad_content",
        chat({"role": "assistant", "text": "abc"}, finish_reason="stop"),
        top(output=[{"type": "message", "role": "assistant", "text": "abc"}])),
    "no-content": Case("a message with neither content nor calls", "endpoint", "upstream_bad_content",
        chat({"role": "assistant"}, finish_reason="stop"), top(output=[{"type": "message", "role": "assistant"}])),
    "item-null": Case("`output` that holds null, or an item without `type`", "endpoint", "upstream_bad_content",
        None, top(output=[None])),
    "filtered": Case("a content filter left nothing", "endpoint", "upstream_filtered",
        chat(assistant(""), finish_reason="content_filter"), top(output=[], **FILTERED)),
    "empty": Case("nothing said, 0 tokens counted", "endpoint", "upstream_empty",
        both(chat(assistant(""), finish_reason="stop"), NO_CHAT_TOKENS), both(top(output=[]), NO_TOKENS)),
    "uncounted": Case("nothing said, nothing counted", "endpoint", "upstream_empty",
        both(chat(assistant(""), finish_reason="stop"), top(usage=None)), top(output=[text_item("")], usage=None)),
    "zero-usage": Case("text or a call, 0 tokens counted", "endpoint", "upstream_zero_usage",
        both(chat(assistant("abc"), finish_reason="stop"), NO_CHAT_TOKENS), NO_TOKENS),
    "null": Case("JSON that is no object", "endpoint", "upstream_unreadable", lambda _: None, lambda _: None),
    "bytes": Case("no JSON", "endpoint", "upstream_unreadable", wire=plain(bytes(range(255, 127, -1)))),
    "html": Case("a page of HTML", "endpoint", "upstream_unreadable", wire=plain(b"<html>busy</html>", "text/html")),
    "no-body": Case("an empty body", "endpoint", "upstream_unreadable", wire=plain(b"")),
    "204": Case("status 204", "endpoint", "upstream_unreadable", wire=b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n"),
    "204-length": Case("status 204 with a length", "endpoint", "upstream_unreadable",
        wire=b"HTTP/1.1 204 X\r\ncontent-length: 5\r\nconnection: close\r\n\r\n"),
    "cut-fitting": Case("a body cut short, with a length that fits", "endpoint", "upstream_unreadable",
        wire="cut_fitting", streamed="upstream_no_finish_reason"),
    "cut-open": Case("a body cut short, without a length", "endpoint", "upstream_unreadable",
        wire="cut_open", streamed="upstream_no_finish_reason"),
    "cut": Case("a body cut short of its length", "endpoint", "upstream_connection", wire="cut"),
    "cut-chunked": Case("a chunked body cut short", "endpoint", "upstream_connection", wire="cut_chunked"),
    "not-http": Case("bytes that are no HTTP", "endpoint", "upstream_connection", wire=b"\x00\x01\x02 no\r\n\r\n"),
    "reset": Case("the connection is reset", "endpoint", "upstream_connection", wire="reset"),
    "close": Case("the connection is closed", "endpoint", "upstream_connection", wire="close"),
    "hang": Case("no answer in `timeout_s`", "endpoint", "upstream_timeout", wire="hang"),
    **{
        str(status): Case(f"status {status}", "endpoint", "upstream_status", wire=failing(status))
        for status in (408, 429, 500, 502, 503, 504, 529)
    },
    "302": Case("status 302", "endpoint", "upstream_refused", wire=failing(302, "location: /elsewhere\r\n")),
    "401": Case("status 401 or 403", "endpoint", "upstream_auth", wire=failing(401)),
    "404": Case("status 404", "endpoint", "upstream_not_found", wire=failing(404)),
    "honest": Case("a right call", "policy", "match", top(), top()),
    "slow": Case("a right call in small pieces", "policy", "match", top(), top(), wire="slow"),
    "dated": Case("a model's name that is longer than the one asked for", "policy", "match",
        top(model="policy-2026-01-01"), top(model="policy-2026-01-01")),
    "no-usage": Case("a call, nothing counted", "policy", "match", top(usage=None), top(usage=None)),
    "length": Case("text that its budget cut", "policy", "call_expected",
        chat(assistant("abc"), finish_reason="length"), top(output=[text_item("abc")], **CUT)),
    "half": Case("arguments cut in half", "policy", "not_json",
        called(arguments=ARGUMENTS[:9]), called(arguments=ARGUMENTS[:9])),
    "bad-json": Case("arguments that are no JSON", "policy", "not_json",
        called(arguments="pytest"), called(arguments="pytest")),
    "unknown-tool": Case("a tool that does not exist, or without a name's letters", "policy", "unknown_tool",
        called(name="nope"), called(name="")),
    "nothing": Case("nothing said, tokens counted", "policy", "no_action",
        both(chat(assistant(""), finish_reason="stop"), top(usage={"prompt_tokens": 9, "completion_tokens": 1})),
        top(output=[], usage={"input_tokens": 9, "output_tokens": 1})),
    "overflow": Case("nothing said, ended by its budget, nothing counted", "policy", "no_action",
        both(chat(assistant(None), finish_reason="length"), top(usage=None)),
        top(output=[text_item("")], usage=None, **CUT)),
    "refusal": Case("a refusal", "policy", "no_action",
        chat(assistant(None, refusal="I can't."), finish_reason="stop"),
        top(output=[item([{"type": "refusal", "refusal": "I can't."}])])),
}
# fmt: on
QUICK = "hang"
"""The one case that needs a short time limit."""


def cases(api: Api) -> list[str]:
    """Those that an endpoint of the dialect can give."""
    return [name for name, case in CASES.items() if case.wire is not None or getattr(case, api) is not None]


class BrokenEndpoint:
    """Listens on loopback while it is open as an async context manager."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        self._writers: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            asked = await reader.readexactly(int(length.group(1)) if length else 0)
            await _answer(asked, "chat" if b"/chat/" in head else "responses", reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _answer(asked: bytes, api: Api, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    named = re.search(rb"CASE-([a-z0-9-]+)", asked)
    assert named is not None
    case = CASES[named.group(1).decode()]
    if isinstance(case.wire, bytes):
        writer.write(case.wire)
    elif case.wire == "hang":
        await reader.read()  # until its client leaves
    elif case.wire == "reset":
        writer.transport.abort()
    elif case.wire != "close":
        streamed = orjson.loads(asked).get("stream") is True
        change = getattr(case, api)
        body = change(honest(api)) if change else honest(api)
        pieces = list(_events(api, body)) if streamed else [orjson.dumps(body)]
        await _write(case.wire, pieces, "text/event-stream" if streamed else "application/json", writer)
    await writer.drain()


async def _write(wire: Any, pieces: list[bytes], kind: str, writer: asyncio.StreamWriter) -> None:
    whole = b"".join(pieces)
    # Of a stream, its end is missing; of a body, its half.
    half = whole[: len(pieces[0]) + 9] if len(pieces) > 1 else whole[: len(whole) // 2]
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n".encode()
    if wire == "cut_open":
        writer.write(head + b"\r\n" + half)
    elif wire == "cut_chunked":
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(half), half))
    elif wire == "slow":
        writer.write(head + b"content-length: %d\r\n\r\n" % len(whole))
        for start in range(0, len(whole), 40):
            writer.write(whole[start : start + 40])
            await asyncio.sleep(0)
    else:
        length = len(half) if wire == "cut_fitting" else len(whole)
        writer.write(head + b"content-length: %d\r\n\r\n" % length + (half if wire else whole))


def _events(api: Api, body: Any) -> Iterator[bytes]:
    """What the whole body says, as a stream."""
    if not isinstance(body, dict):
        yield b"data: %s\n\n" % orjson.dumps(body)
    elif api == "chat":
        yield from _chunks(body)
    else:
        yield from _response_events(body)


def _chunks(body: JsonObject) -> Iterator[bytes]:
    head = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    choices = body.get("choices", [])
    choice = choices[0] if choices and isinstance(choices[0], dict) else None
    if choice is None:
        yield _event({**head, "choices": choices})
    else:
        rest = {key: value for key, value in choice.items() if key not in ("message", "finish_reason")}
        told = "message" in choice
        yield _event({**head, "choices": [{**rest, **({"delta": _indexed(choice["message"])} if told else {})}]})
        ended = {"finish_reason": choice.get("finish_reason")}
        yield _event({**head, "choices": [{**({"delta": {}} if told else {}), **ended}]})
    if "usage" in body:
        yield _event({**head, "choices": [], "usage": body["usage"]})
    yield b"data: [DONE]\n\n"


def _indexed(message: JsonObject) -> JsonObject:
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [call and {"index": nth, **call} for nth, call in enumerate(calls)]}


def _response_events(body: JsonObject) -> Iterator[bytes]:
    yield _event({"type": "response.created", "response": {**body, "output": [], "status": "in_progress"}})
    output = body.get("output")
    for nth, each in enumerate(output if isinstance(output, list) else []):
        if isinstance(each, dict):
            yield _event({"type": "response.output_item.added", "output_index": nth, "item": {"type": each["type"]}})
            yield _event({"type": "response.output_item.done", "output_index": nth, "item": each})
    status = body.get("status")
    end = status if status in ("incomplete", "failed") else "completed"
    yield _event({"type": f"response.{end}", "response": body})


def _event(data: Any) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(data)
