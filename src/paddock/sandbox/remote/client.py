"""The provider of a node: sandboxes of another machine, over HTTP.

Law     what it raises is what the provider there raises; a node that can't be reached is a SandboxError, never a
        command's output. All its sandboxes belong to one lease; where that is lost they are gone, and the next
        `create` opens another.
"""

import asyncio
import logging
from collections.abc import Sequence
from urllib.parse import quote

from paddock.http.access import find_token
from paddock.sandbox.failures import SandboxError, SandboxGone
from paddock.sandbox.layers import Patch
from paddock.sandbox.protocol import TunnelListener
from paddock.sandbox.records import (
    ExecRequest,
    ExecResult,
    MemoryKill,
    PathChange,
    SandboxHandle,
    SandboxSpec,
    ShellRequest,
    ShellResult,
    Stats,
)
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.calls import call, transfer
from paddock.sandbox.remote.http import OK, Message, NodeHttp, UnreachableError
from paddock.sandbox.remote.lease import NodeLease, open_lease
from paddock.sandbox.remote.tunnel import LinkListener
from paddock.sandbox.remote.wire import Nothing
from paddock.sandbox.requests import RequestLog
from paddock.sandbox.settings import SandboxSettings

_log = logging.getLogger("paddock.sandbox")


class RemoteProvider:
    """Sandboxes on one node; made in a running event loop."""

    def __init__(self, settings: SandboxSettings, *, token: str | None = None) -> None:
        """`token`: before that of the settings."""
        if token is None and settings.node_token_file is not None:
            token = find_token(settings.node_token_file)
        self.settings = settings
        self._http = NodeHttp(settings.nodes[0], token)
        self._lease: NodeLease | None = None
        self._opening = asyncio.Lock()
        self._sandboxes: dict[str, tuple[SandboxHandle, NodeLease]] = {}
        self._tunnels: dict[str, list[LinkListener]] = {}
        self._requests = RequestLog()

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._requests.once(
            ("create", request_id), lambda: self._create(spec), lambda handle: self.destroy(handle.sandbox_id)
        )

    async def destroy(self, sandbox_id: str) -> None:
        held = self._sandboxes.pop(sandbox_id, None)
        if held is None:
            return
        self._requests.forget(sandbox_id)
        await asyncio.shield(self._destroy(sandbox_id, held[1]))

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        return await self._requests.once((sandbox_id, request_id), lambda: self._exec(sandbox_id, request))

    async def open_shell(self, sandbox_id: str, request: ShellRequest) -> str:
        reply = await call(self._held(sandbox_id), wire.OPEN_SHELL, request, sandbox_id=sandbox_id)
        return reply.shell_id

    async def shell_run(
        self, sandbox_id: str, shell_id: str, line: str, *, timeout_s: float | None = None, wait_s: float | None = None
    ) -> ShellResult:
        limits_s = [limit_s for limit_s in (timeout_s, wait_s) if limit_s is not None]
        return await call(
            self._held(sandbox_id),
            wire.SHELL_RUN,
            wire.LineRequest(line=line, timeout_s=timeout_s, wait_s=wait_s),
            timeout_s=self._deadline_s(min(limits_s, default=None)),
            sandbox_id=sandbox_id,
            shell_id=shell_id,
        )

    async def shell_poll(self, sandbox_id: str, shell_id: str, *, wait_s: float = 0.0) -> ShellResult:
        return await call(
            self._held(sandbox_id),
            wire.SHELL_POLL,
            wire.ShellWait(wait_s=wait_s),
            timeout_s=self._deadline_s(wait_s),
            sandbox_id=sandbox_id,
            shell_id=shell_id,
        )

    async def shell_type(self, sandbox_id: str, shell_id: str, data: bytes) -> None:
        lease, typed = self._held(sandbox_id), wire.ShellInput(data=data)
        await call(lease, wire.SHELL_TYPE, typed, sandbox_id=sandbox_id, shell_id=shell_id)

    async def shell_interrupt(self, sandbox_id: str, shell_id: str) -> ShellResult:
        lease = self._held(sandbox_id)
        return await call(lease, wire.SHELL_INTERRUPT, Nothing(), sandbox_id=sandbox_id, shell_id=shell_id)

    async def close_shell(self, sandbox_id: str, shell_id: str) -> None:
        lease = self._held(sandbox_id)
        await call(lease, wire.CLOSE_SHELL, Nothing(), sandbox_id=sandbox_id, shell_id=shell_id)

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        url = _file(sandbox_id) + wire.query(path=path, max_bytes=max_bytes)
        return await transfer(self._held(sandbox_id), "GET", url)

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        url = _file(sandbox_id) + wire.query(path=path, mode=mode)
        await transfer(self._held(sandbox_id), "PUT", url, data)

    async def changes(self, sandbox_id: str, under: str = "/") -> list[PathChange]:
        query = wire.ChangesQuery(under=under)
        return (await call(self._held(sandbox_id), wire.CHANGES, query, sandbox_id=sandbox_id)).paths

    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        request = wire.PatchRequest(root=root, exclude=list(exclude), ended=ended)
        return await call(self._held(sandbox_id), wire.PATCH, request, sandbox_id=sandbox_id)

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        request = wire.SnapshotName(name=name)
        return (await call(self._held(sandbox_id), wire.SNAPSHOT, request, sandbox_id=sandbox_id)).name

    async def tunnel(self, sandbox_id: str, *, port: int) -> TunnelListener:
        lease = self._held(sandbox_id)
        grant = await call(lease, wire.OPEN_TUNNEL, wire.TunnelPort(port=port), sandbox_id=sandbox_id)
        listener = LinkListener(lease, sandbox_id, grant)
        self._tunnels.setdefault(sandbox_id, []).append(listener)
        return listener

    async def stats(self, sandbox_id: str) -> Stats:
        return await call(self._held(sandbox_id), wire.STATS, Nothing(), sandbox_id=sandbox_id)

    async def kills(self, sandbox_id: str) -> list[MemoryKill]:
        return (await call(self._held(sandbox_id), wire.KILLS, Nothing(), sandbox_id=sandbox_id)).kills

    async def why_not_ready(self) -> str | None:
        """Why the node can start no sandbox; None: it can."""
        try:
            answer = await self._http.send(Message("GET", "/healthz"), {}, timeout_s=self.settings.answer_margin_s)
        except UnreachableError as error:
            return f"{self._http.url}: {error}"
        if answer.status == OK:
            return None
        reason = answer.json.get("reason") if isinstance(answer.json, dict) else None
        return f"{self._http.url}: {reason or answer.status}"

    def live(self) -> list[SandboxHandle]:
        return [handle for handle, _ in self._sandboxes.values()]

    async def close(self) -> None:
        self._sandboxes.clear()
        if self._lease is not None:
            await self._lease.end(self.settings.answer_margin_s)
        for sandbox_id in list(self._tunnels):
            await self._end_tunnels(sandbox_id)
        await self._http.close()

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        lease = await self._live_lease()
        handle = await call(lease, wire.CREATE, spec)
        self._sandboxes[handle.sandbox_id] = (handle, lease)
        return handle

    async def _destroy(self, sandbox_id: str, lease: NodeLease) -> None:
        try:
            await call(lease, wire.DESTROY, Nothing(), sandbox_id=sandbox_id)
        except SandboxError as error:
            _log.warning("sandbox %s was not destroyed by this client, and ends with its lease: %s", sandbox_id, error)
        await self._end_tunnels(sandbox_id)

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        timeout_s = self._deadline_s(request.timeout_s)
        return await call(self._held(sandbox_id), wire.EXEC, request, timeout_s=timeout_s, sandbox_id=sandbox_id)

    async def _live_lease(self) -> NodeLease:
        async with self._opening:
            if self._lease is None or self._lease.lost.done():
                self._lease = await open_lease(self._http, self.settings.lease_ttl_s, self.settings.answer_margin_s)
                self._lease.lost.add_done_callback(lambda _: self._drop_lost())
            return self._lease

    def _drop_lost(self) -> None:
        """Sandboxes of a lost lease are gone."""
        for sandbox_id, (_, lease) in list(self._sandboxes.items()):
            if lease.lost.done():
                del self._sandboxes[sandbox_id]

    def _held(self, sandbox_id: str) -> NodeLease:
        held = self._sandboxes.get(sandbox_id)
        if held is None:
            raise SandboxGone(sandbox_id)
        return held[1]

    def _deadline_s(self, limit_s: float | None) -> float | None:
        return None if limit_s is None else limit_s + self.settings.answer_margin_s

    async def _end_tunnels(self, sandbox_id: str) -> None:
        for listener in self._tunnels.pop(sandbox_id, []):
            await listener.end()


def _file(sandbox_id: str) -> str:
    return wire.FILE.format(sandbox_id=quote(sandbox_id, safe=""))
