"""The rollout's model as its harness sees it: called from here, or from inside through a tunnel.

Law     the tunnel is opened when it is first asked for. Both ways name the rollout, so both are recorded. What is asked
        from here has been looked at for canaries where it came from: in each tool's result.
Inside  a program there sets its own sampling parameters and counts no turns: the rollout's are set at the model server.
Errors  ContextExceeded; what else the model server answers is the rollout's failure.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

import orjson

from paddock.errors import BugError, InfraError, RequestError
from paddock.harness import ContextExceeded, ModelEndpoint, RequestFilter, SideRequest
from paddock.http import RESPONSES, SETTINGS, TRANSCRIPT, Call, Peer
from paddock.sandbox.tunnel import Tunnel, TunnelRefusal
from paddock.server.rollout import require_answer
from paddock.types import JsonObject, RolloutSettings, TurnSummary, TurnSummaryQuery

UNSET = RolloutSettings()
T = TypeVar("T")


class TunnelOptions(NamedTuple):
    """How a tunnel is to be opened."""

    screen: Callable[[str, bytes], bytes] | None = None
    api_key: str | None = None
    """Not None: the tunnel is for a program on this machine, which has to bring this key."""


OpenTunnel = Callable[[TunnelOptions], Awaitable[Tunnel]]
CONTEXT_KIND = "context_length_exceeded"
"""`paddock.server.upstream_failures`, and OpenAI's own code."""


class RolloutModel:
    """The model of one rollout; `async with` closes what it opened."""

    def __init__(
        self,
        peer: Peer,
        call: Call,
        *,
        secret: str,
        name: str,
        open_tunnel: OpenTunnel | None = None,
        settings: RolloutSettings = UNSET,
    ) -> None:
        """`open_tunnel` None: there is no inside to call from. `settings` hold for calls from inside."""
        self.name = name
        self.tunnel: Tunnel | None = None
        self.calls = 0
        """Model calls that were made from here."""
        self._peer = peer
        self._call = call
        self._secret = secret
        self._open_tunnel = open_tunnel
        self._settings = settings
        self._api_key: str | None = None
        self._opened = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "RolloutModel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def respond(self, body: JsonObject) -> JsonObject:
        self.calls += 1
        try:
            reply = await self._peer.call(RESPONSES, body, Call(deadline=self._call.deadline), secret=self._secret)
        except RequestError as error:
            if error.kind == CONTEXT_KIND:
                raise ContextExceeded(error.message) from error
            raise
        if not isinstance(reply, dict):
            raise InfraError(f"{self.name}: a stream where a whole answer was asked for", kind="reply_unreadable")
        return require_answer(reply)

    async def endpoint(self, request_filter: RequestFilter | None = None, *, outside: bool = False) -> ModelEndpoint:
        if self._open_tunnel is None:
            raise BugError("there is no way to the model from inside", kind="no_tunnel")
        if self.tunnel is None:
            if self._settings != UNSET:
                await self._peer.call(SETTINGS, self._settings, Call(deadline=self._call.deadline), secret=self._secret)
            self._api_key = secrets.token_hex(16) if outside else None
            options = TunnelOptions(_filter_of(request_filter) if request_filter else None, self._api_key)
            self.tunnel = await self._stack.enter_async_context(await self._open_tunnel(options))
            self._opened.set()
        key = {"api_key": self._api_key} if self._api_key else {}
        return ModelEndpoint(base_url=self.tunnel.base_url, model=self.name, **key)

    async def watch(self, run: Coroutine[Any, Any, T]) -> T:
        """The result of a harness's run. InfraError when the tunnel is lost meanwhile: a program may wait for a network
        for ever, and what it says to its end would not show why."""
        running = asyncio.ensure_future(run)
        tunnel_end = asyncio.ensure_future(self._tunnel_lost())
        try:
            await asyncio.wait({running, tunnel_end}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise InfraError("the tunnel to the model was lost", kind="tunnel_lost")
            return running.result()
        finally:
            for task in (running, tunnel_end):
                task.cancel()
            await asyncio.gather(running, tunnel_end, return_exceptions=True)

    async def _tunnel_lost(self) -> None:
        await self._opened.wait()
        assert self.tunnel is not None
        await self.tunnel.ended.wait()

    async def transcript(self, skip: int = 0) -> Sequence[TurnSummary]:
        query = TurnSummaryQuery(skip=skip)
        summaries = await self._peer.call(TRANSCRIPT, query, Call(deadline=self._call.deadline), secret=self._secret)
        return summaries.turns

    @property
    def overflowed(self) -> bool:
        return self.tunnel is not None and self.tunnel.overflowed

    @property
    def has_repeated_call(self) -> bool:
        return self.tunnel is not None and self.tunnel.call_repeated


def _filter_of(request_filter: RequestFilter) -> Callable[[str, bytes], bytes]:
    """The request filter on bytes. A body that is no JSON object passes unchanged: the model server refuses it."""

    def filter_body(path: str, body: bytes) -> bytes:
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError:
            return body
        if not isinstance(request, dict):
            return body
        try:
            changed = request_filter.filter(path, request)
        except SideRequest as refused:
            raise TunnelRefusal(403, "refused", str(refused)) from refused
        return body if changed is request else orjson.dumps(changed)

    return filter_body
