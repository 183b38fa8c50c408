"""The MCP servers of an agent: what they need to be started, and the sources that a rollout opens.

Room    the sandboxes of one rollout's servers are admitted together, so that no two rollouts wait for each other.
Errors  ConfigError where the `mcp` package is not installed; RowError where a server has no image to run in.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING

from paddock.agents.tools.config import McpServerConfig, ToolsAgentConfig
from paddock.agents.tools.sources import ToolSource
from paddock.errors import ConfigError, InfraError, RowError
from paddock.http import Call
from paddock.sandbox import Provider, SandboxSpec
from paddock.sandbox.admission import Admission, Capacity, shared_admission
from paddock.sandbox.leases import Lease, shared_provider
from paddock.types import Session

if TYPE_CHECKING:
    from paddock.agents.tools.mcp_places import McpPlace


class McpServers:
    """`start` before the first rollout, `stop` after the last."""

    def __init__(self, config: ToolsAgentConfig) -> None:
        self._config = config
        self._servers: Mapping[str, McpServerConfig] = config.mcp_servers
        self._n_boxed = sum(server.is_boxed for server in self._servers.values())
        self._provider: Lease[Provider] | None = None
        self._admission: Lease[Admission] | None = None
        if self._servers and find_spec("mcp") is None:
            raise ConfigError("mcp_servers: needs the package `mcp`: pip install 'paddock[mcp]'", kind="mcp_missing")

    def __bool__(self) -> bool:
        return bool(self._servers)

    async def start(self) -> None:
        if not self._n_boxed:
            return
        self._admission = await shared_admission(self._config.admission)
        if not self._config.sandbox.nodes:
            self._admission.value.check(self._room())
        self._provider = await shared_provider(self._config.sandbox)

    async def stop(self) -> None:
        for lease in (self._provider, self._admission):
            if lease is not None:
                await lease.release()

    async def open(self, session: Session, call: Call, stack: AsyncExitStack) -> Sequence[ToolSource]:
        """Start or connect to each server for one rollout; they end with `stack`. Raises InfraError."""
        if not self._servers:
            return ()
        try:
            async with asyncio.timeout(call.remaining_s):
                return await self._open(session, stack)
        except TimeoutError as error:
            raise InfraError("the rollout's time is over (rollout_timeout_s)", kind="timeout") from error

    async def _open(self, session: Session, stack: AsyncExitStack) -> Sequence[ToolSource]:
        from paddock.agents.tools.mcp_source import McpSource

        await stack.enter_async_context(self._hold_room())
        opened = []
        for name, server in self._servers.items():
            source = McpSource(name, self._place(name, server, session), server.connect_timeout_s)
            opened.append(await stack.enter_async_context(source))
        return opened

    def _hold_room(self) -> AbstractAsyncContextManager[None]:
        if self._admission is None or self._config.sandbox.nodes:
            return nullcontext()
        return self._admission.value.hold(self._room())

    def _room(self) -> Capacity:
        one = self._config.admission.demand(self._config.limits.memory_mib)
        room = one
        for _ in range(self._n_boxed - 1):
            room = room.plus(one)
        return room

    def _place(self, name: str, server: McpServerConfig, session: Session) -> "McpPlace":
        from paddock.agents.tools.mcp_places import ChildPlace, HttpPlace, SandboxPlace

        if server.url is not None:
            return HttpPlace(server)
        if self._provider is None or not server.is_boxed:
            return ChildPlace(server)
        image = server.image or session.image
        if image is None:
            raise RowError(
                f"mcp_servers.{name}: no image to run in: the row's environment names none, nor does `image`",
                kind="image_missing",
            )
        return SandboxPlace(server, self._provider.value, SandboxSpec(image=image, limits=self._config.limits))
