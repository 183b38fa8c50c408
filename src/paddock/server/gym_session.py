"""A session at a resources server of NeMo-Gym's: a cookie, and tools that are routes.

Source  nemo-gym 0.4.0: `base_resources_server.py`; `simple_agent/app.py` for what the model reads of a call.
Tools   are the row's. `POST /<name>` with the parsed arguments; the reply's text is the result, also where the server
        refuses the call (4xx). Arguments that are no JSON object do not reach it.
Law     a server that fails (5xx) or can't be reached is an InfraError, where NeMo-Gym shows the model the error.
        A server that was started again has lost its sessions, and says nothing of that: it judges a new one.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx
import orjson

from paddock.errors import InfraError, RowError
from paddock.http import Call, HttpPeer, SessionCall, SessionCallResult
from paddock.http.client import cookie_header, read_reply, set_cookies, text_of
from paddock.server.session_calls import SessionCalls
from paddock.tools import InvalidCall, decode_object
from paddock.types import Verdict

RESERVED = frozenset({"seed_session", "verify", "aggregate_metrics", "mcp"})
"""Routes that are no tools."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""Of a function, as the Responses API has it: nothing that a path could read as another route."""


def tool_names(tools: Sequence[object]) -> frozenset[str]:
    """The names of a row's tools. RowError for one that is no function's, or a route that is no tool."""
    names = [tool.get("name") if isinstance(tool, dict) else None for tool in tools]
    for number, name in enumerate(names):
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            raise RowError(
                f"responses_create_params.tools.{number}.name: {str(name)[:80]!r} is no tool's name, or a route that "
                "is none",
                kind="row_invalid",
            )
    return frozenset(str(name) for name in names)


class GymReply(NamedTuple):
    """What a route answered."""

    status_code: int
    text: str


class GymSession:
    """`peer` sends and updates `cookies`."""

    def __init__(self, peer: HttpPeer, cookies: dict[str, str], tools: frozenset[str]) -> None:
        self.peer = peer
        self.calls = SessionCalls()
        self._cookies = cookies
        self._tools = tools
        self._verdict: asyncio.Task[Verdict] | None = None

    async def run(self, request: SessionCall, call: Call) -> SessionCallResult:
        """Run a tool. Raises InfraError."""
        if request.name not in self._tools:
            text = f"There is no tool {request.name!r}; there are: {', '.join(sorted(self._tools))}."
            return SessionCallResult(text=text, problem="unknown_tool")
        arguments = decode_object(request.arguments or "{}")
        if isinstance(arguments, InvalidCall):
            error = {"error": f"Invalid tool call arguments: {arguments.detail}"}
            return SessionCallResult(text=orjson.dumps(error).decode(), problem="bad_json")
        what = f"{self.peer.name}: tool {request.name}"
        reply = await post(self.peer, self._cookies, f"/{request.name}", orjson.dumps(arguments), call, what=what)
        if reply.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            text = f"{what}: {reply.status_code}: {reply.text[:300]}"
            raise InfraError(text, kind="tool_failed", stage="tools")
        refused = reply.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
        return SessionCallResult(text=reply.text, problem="bad_arguments" if refused else None)

    async def judged(self, judge: Callable[[], Coroutine[Any, Any, Verdict]]) -> Verdict:
        """The verdict, or what `judge` raised: it is called once, whoever asks again is answered as before."""
        if self._verdict is None:
            self._verdict = asyncio.create_task(judge())
        return await asyncio.shield(self._verdict)

    async def end(self) -> None:
        """Cancel what runs, and wait for it."""
        await self.calls.end()
        if self._verdict is not None:
            self._verdict.cancel()
            await asyncio.gather(self._verdict, return_exceptions=True)


async def post(
    peer: HttpPeer,
    cookies: dict[str, str],
    path: str,
    body: bytes,
    call: Call,
    *,
    what: str,
    headers: Mapping[str, str] = {},
) -> GymReply:
    """Send a JSON body with the session's cookies, and update them by the reply. Raises InfraError, which begins with
    `what`, where no reply comes."""
    own = {"content-type": "application/json", **headers, **cookie_header(cookies)}
    try:
        async with (
            asyncio.timeout(call.remaining_s),
            peer.relay(path, body, own, call) as reply,
        ):
            content = await read_reply(reply, peer.max_reply_bytes, what)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise InfraError(f"{what}: no answer in time", kind="timeout") from error
    except httpx.HTTPError as error:
        raise InfraError(f"{what}: {type(error).__name__}: {error}", kind="connection") from error
    cookies |= set_cookies(reply.headers)
    return GymReply(reply.status_code, text_of(reply, content))
