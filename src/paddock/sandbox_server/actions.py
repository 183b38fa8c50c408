"""What each route of a node does: the method of the provider that it stands for, within the caller's lease."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from paddock.sandbox import Archive, ExecRequest, ExecResult, Patch, SandboxHandle, SandboxSpec, ShellRequest
from paddock.sandbox.records import ShellResult, Stats
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.wire import NodeRoute, Nothing
from paddock.sandbox_server.leases import ClientLease
from paddock.sandbox_server.room import AdmittedSandboxes
from paddock.sandbox_server.tunnels import NodeTunnel
from paddock.types import Record


class Action:
    """One request of one client."""

    def __init__(
        self, sandboxes: AdmittedSandboxes, lease: ClientLease, words: dict[str, str], call_id: str, *, waiting: int
    ) -> None:
        """`waiting`: sandboxes for which clients wait."""
        self.provider = sandboxes.provider
        self.sandboxes = sandboxes
        self.waiting = waiting
        self.lease = lease
        self.sandbox_id = words.get("sandbox_id", "")
        self.words = words
        self.request_id = f"{lease.id}:{call_id}"
        """The provider's id of this request: no other client's has it."""

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        handle = await self.sandboxes.create(spec, request_id=self.request_id, waiting=self.waiting)
        await self.lease.add(handle)
        return handle

    async def uncreate(self, handle: SandboxHandle) -> None:
        await self.lease.destroy(handle.sandbox_id)

    async def destroy(self, _: Nothing) -> Nothing:
        await self.lease.destroy(self.sandbox_id)
        return Nothing()

    async def exec(self, request: ExecRequest) -> ExecResult:
        return await self.provider.exec(self.sandbox_id, request, request_id=self.request_id)

    async def open_shell(self, request: ShellRequest) -> wire.ShellId:
        return wire.ShellId(shell_id=await self.provider.open_shell(self.sandbox_id, request))

    async def close_opened_shell(self, shell: wire.ShellId) -> None:
        await self.provider.close_shell(self.sandbox_id, shell.shell_id)

    async def shell_run(self, line: wire.LineRequest) -> ShellResult:
        return await self.provider.shell_run(
            self.sandbox_id, self.words["shell_id"], line.line, timeout_s=line.timeout_s, wait_s=line.wait_s
        )

    async def shell_poll(self, wait: wire.ShellWait) -> ShellResult:
        return await self.provider.shell_poll(self.sandbox_id, self.words["shell_id"], wait_s=wait.wait_s)

    async def shell_type(self, typed: wire.ShellInput) -> Nothing:
        await self.provider.shell_type(self.sandbox_id, self.words["shell_id"], typed.data)
        return Nothing()

    async def shell_interrupt(self, _: Nothing) -> ShellResult:
        return await self.provider.shell_interrupt(self.sandbox_id, self.words["shell_id"])

    async def close_shell(self, _: Nothing) -> Nothing:
        await self.provider.close_shell(self.sandbox_id, self.words["shell_id"])
        return Nothing()

    async def changes(self, query: wire.ChangesQuery) -> wire.Changes:
        return wire.Changes(paths=await self.provider.changes(self.sandbox_id, query.under))

    async def patch(self, request: wire.PatchRequest) -> Patch:
        return await self.provider.patch(self.sandbox_id, request.root, exclude=request.exclude, ended=request.ended)

    async def archive(self, request: wire.ArchiveRequest) -> Archive:
        return await self.provider.archive(
            self.sandbox_id, request.paths, exclude=request.exclude, max_bytes=request.max_bytes, ended=request.ended
        )

    async def snapshot(self, request: wire.SnapshotName) -> wire.SnapshotName:
        return wire.SnapshotName(name=await self.provider.snapshot(self.sandbox_id, request.name))

    async def stats(self, _: Nothing) -> Stats:
        return await self.provider.stats(self.sandbox_id)

    async def kills(self, _: Nothing) -> wire.Kills:
        return wire.Kills(kills=await self.provider.kills(self.sandbox_id))

    async def open_tunnel(self, request: wire.TunnelPort) -> wire.TunnelGrant:
        tunnel = NodeTunnel(await self.provider.tunnel(self.sandbox_id, port=request.port))
        grant = wire.TunnelGrant(tunnel_id=uuid.uuid4().hex, port=tunnel.port)
        self.lease.tunnels[self.sandbox_id, grant.tunnel_id] = tunnel
        return grant

    async def close_opened_tunnel(self, grant: wire.TunnelGrant) -> None:
        tunnel = self.lease.tunnels.pop((self.sandbox_id, grant.tunnel_id), None)
        if tunnel is not None:
            await tunnel.end()

    async def close_tunnel(self, _: Nothing) -> Nothing:
        """Its listener alone: connections that live go on until its client ends the link."""
        tunnel = self.lease.tunnels.get((self.sandbox_id, self.words["tunnel_id"]))
        if tunnel is not None:
            await tunnel.close_listener()
        return Nothing()

    async def read(self, file: wire.FilePath) -> bytes:
        return await self.provider.read(self.sandbox_id, file.path, max_bytes=file.max_bytes)

    async def write(self, file: wire.FileTarget, data: bytes) -> Nothing:
        await self.provider.write(self.sandbox_id, file.path, data, mode=file.mode)
        return Nothing()


ACTIONS: dict[NodeRoute[Any, Any], Callable[[Action, Any], Awaitable[Record]]] = {
    wire.EXEC: Action.exec,
    wire.SHELL_RUN: Action.shell_run,
    wire.SHELL_POLL: Action.shell_poll,
    wire.CREATE: Action.create,
    wire.DESTROY: Action.destroy,
    wire.OPEN_SHELL: Action.open_shell,
    wire.SHELL_TYPE: Action.shell_type,
    wire.SHELL_INTERRUPT: Action.shell_interrupt,
    wire.CLOSE_SHELL: Action.close_shell,
    wire.CHANGES: Action.changes,
    wire.PATCH: Action.patch,
    wire.ARCHIVE: Action.archive,
    wire.SNAPSHOT: Action.snapshot,
    wire.STATS: Action.stats,
    wire.KILLS: Action.kills,
    wire.OPEN_TUNNEL: Action.open_tunnel,
    wire.CLOSE_TUNNEL: Action.close_tunnel,
}
UNDOS: dict[NodeRoute[Any, Any], Callable[[Action, Any], Awaitable[None]]] = {
    wire.CREATE: Action.uncreate,
    wire.OPEN_SHELL: Action.close_opened_shell,
    wire.OPEN_TUNNEL: Action.close_opened_tunnel,
}
"""How an answer is taken back that its client did not wait for."""
