"""What a script or a notebook calls on one server: rows and answers in the forms that are handy to write.

Forms   a row: a Row, or the object of one dataset line. An answer: a Responses API response, a list of output items,
        one item, a text (one message), a `Call` (one tool call), or a list of these.
Errors  RowError and RequestError for what can't be read as either; what the server raises for the rest.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from paddock.config.problems import suggestion
from paddock.errors import RequestError
from paddock.http import (
    PLAIN_RESPONSES,
    RUN,
    SCRIPT,
    SEED,
    VERIFY,
    Call,
    EventStream,
    Peer,
    ReplayScript,
    Route,
    VerifyRequest,
    new_secret,
    read_row,
    require_response,
)
from paddock.server.base import AgentServer, ResourcesServer, Server
from paddock.types import JsonObject, Row
from paddock.types.responses import ToolCall, call_item, make_response, message_item

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
"""Gives a coroutine's result, or an awaitable of it."""


def as_row(row: Row | Mapping[str, Any]) -> Row:
    """The row of either form."""
    return row if isinstance(row, Row) else read_row(dict(row))


def as_items(answer: Any) -> list[JsonObject]:
    """The output items of an answer in any of its forms."""
    if isinstance(answer, str):
        return [message_item(answer)]
    if isinstance(answer, ToolCall):
        return [call_item(answer.name, answer.arguments, answer.call_id)]
    if isinstance(answer, Mapping):
        if isinstance(answer.get("output"), list):
            return list(answer["output"])
        if "type" in answer or "role" in answer:
            return [dict(answer)]
    elif isinstance(answer, Sequence):
        return [item for part in answer for item in as_items(part)]
    raise RequestError(
        "an answer is a response with `output`, a list of items, an item with `type`, a text or a Call; "
        f"got {type(answer).__name__}",
        kind="answer_invalid",
    )


def as_response(answer: Any, row: Row) -> JsonObject:
    """A response object: the answer itself when it is one, else one around its items. RequestError where it is of
    another shape."""
    if isinstance(answer, Mapping) and isinstance(answer.get("output"), list):
        response = dict(answer)
    else:
        response = make_response(as_items(answer), row.responses_create_params, model="by hand")
    require_response(response, "answer")
    return response


class Handle:
    """One server."""

    kind = ""
    calls = ""

    def __init__(
        self, name: str, peers: Mapping[str, Peer], run_coroutine: RunCoroutine, local: Server[Any] | None
    ) -> None:
        self.name = name
        self._peers = peers
        self._peer = peers[name]
        self._run_coroutine = run_coroutine
        self._local = local

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What a route of the server's own answers to a JSON object, such as `/compare`."""
        return self._run_coroutine(self._post(path, dict(body)))

    async def _post(self, path: str, body: JsonObject) -> JsonObject:
        if self._local is None:
            return await self._peer.call(_plain_route(path), body, Call())
        routes = {
            route.path: route for route in self._local.handlers() if route.method == "POST" and "{" not in route.path
        }
        if path not in routes:
            raise RequestError(f"{self.name} has no route POST {path}{suggestion(path, routes)}", kind="no_route")
        route = routes[path]
        request = route.from_wire(body) if route.from_wire else body
        reply = await self._peer.call(route, request, Call())
        if isinstance(reply, EventStream):
            raise RequestError("stream: a handle gives whole answers", kind="stream_refused")
        wire: JsonObject = route.reply_to_wire(request, reply) if route.reply_to_wire else reply
        return wire

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.name}: {self.calls}, post(path, body)>"


def _plain_route(path: str) -> Route[JsonObject, JsonObject]:
    """Of a server elsewhere, whose records are not known here."""
    return Route("POST", path, "A route of the server's own", replayable=False, long=True)


class ResourcesHandle(Handle):
    kind = "resources_servers"
    calls = "seed(row), verify(row, answer), oracle(row)"

    def seed(self, row: Row | Mapping[str, Any]) -> Any:
        """The row's Session."""
        return self._run_coroutine(self._peer.call(SEED, as_row(row), Call()))

    def verify(self, row: Row | Mapping[str, Any], answer: Any) -> Any:
        """The Verdict on an answer to a row."""
        row_record = as_row(row)
        request = VerifyRequest(row=row_record, response=as_response(answer, row_record))
        return self._run_coroutine(self._peer.call(VERIFY, request, Call()))

    def oracle(self, row: Row | Mapping[str, Any]) -> list[list[JsonObject]]:
        """Known-good output items per turn; at once, and only where the server runs in this process."""
        if not isinstance(self._local, ResourcesServer):
            raise RequestError(f"{self.name} runs elsewhere: it tells nobody what is right", kind="not_local")
        row_record = as_row(row)
        return [list(turn) for turn in self._local.oracle(self._local.read_task(row_record), row_record)]


class AgentHandle(Handle):
    kind = "agents"
    calls = "run(row, turns=...), responses(params)"

    def run(self, row: Row | Mapping[str, Any], *, turns: Sequence[Any] | None = None) -> Any:
        """The Rollout of a row. `turns`: what a replay model server answers, one answer per turn."""
        return self._run_coroutine(self._run(as_row(row), turns))

    def responses(self, params: str | Mapping[str, Any]) -> Any:
        """The agent's own response to a request or a text."""
        return self._run_coroutine(_respond(self._peer, params))

    async def _run(self, row: Row, turns: Sequence[Any] | None) -> Any:
        call = Call()
        if turns is not None:
            call = Call(rollout_secret=new_secret())
            await self._script(ReplayScript(turns=[as_items(turn) for turn in turns]), call.rollout_secret or "")
        return await self._peer.call(RUN, row, call)

    async def _script(self, script: ReplayScript, secret: str) -> None:
        if not isinstance(self._local, AgentServer):
            raise RequestError(f"{self.name} runs elsewhere: its model can't be scripted", kind="not_local")
        model = self._local.config.model_server.name
        await self._peers[model].call(SCRIPT, script, Call(), secret=secret)


class ModelHandle(Handle):
    kind = "models_servers"
    calls = "responses(params)"

    def responses(self, params: str | Mapping[str, Any]) -> Any:
        """The model's response to a Responses API request or a text."""
        return self._run_coroutine(_respond(self._peer, params))


async def _respond(peer: Peer, params: str | Mapping[str, Any]) -> JsonObject:
    body = {"input": params} if isinstance(params, str) else dict(params)
    if body.get("stream"):
        raise RequestError("stream: a handle gives whole answers", kind="stream_refused")
    reply = await peer.call(PLAIN_RESPONSES, body, Call())
    assert isinstance(reply, dict)  # only a stream that was asked for is none
    return reply
