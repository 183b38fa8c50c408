"""The rollout's model as its harness sees it: called from here, or from inside through a tunnel.

Law     the tunnel is opened when it is first asked for. Both ways name the rollout, so both are recorded. What is asked
        from here has been looked at for canaries where it came from: in each tool's result.
Inside  a program there sets its own sampling parameters and counts no turns: the rollout's are set at the model server.
Errors  ContextExceeded; what else the model server answers is the rollout's failure.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from paddock.errors import BugError, InfraError, RequestError
from paddock.harness import ContextExceeded, Endpoint
from paddock.http import RESPONSES, SETTINGS, Call, Peer
from paddock.sandbox.tunnel import Tunnel
from paddock.server.rollout import require_answer
from paddock.types import JsonObject, RolloutSettings

UNSET = RolloutSettings()
CONTEXT_KIND = "context_length_exceeded"
"""`paddock.server.upstream_failures`, and OpenAI's own code."""


class RolloutModel:
    """One rollout's; `async with` closes what it opened."""

    def __init__(
        self,
        peer: Peer,
        call: Call,
        *,
        secret: str,
        name: str,
        open_tunnel: "OpenTunnel | None" = None,
        settings: RolloutSettings = UNSET,
    ) -> None:
        """`open_tunnel` None: there is no inside to call from. `settings`: for what is asked from inside."""
        self.name = name
        self.tunnel: Tunnel | None = None
        self.calls = 0
        """From here."""
        self._peer = peer
        self._call = call
        self._secret = secret
        self._open_tunnel = open_tunnel
        self._settings = settings
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

    async def endpoint(self) -> Endpoint:
        if self._open_tunnel is None:
            raise BugError("there is no way to the model from inside", kind="no_tunnel")
        if self.tunnel is None:
            if self._settings != UNSET:
                await self._peer.call(SETTINGS, self._settings, Call(deadline=self._call.deadline), secret=self._secret)
            self.tunnel = await self._stack.enter_async_context(await self._open_tunnel())
        return Endpoint(base_url=self.tunnel.base_url, model=self.name)


OpenTunnel = Callable[[], Awaitable[Tunnel]]
