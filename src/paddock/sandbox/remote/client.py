"""The provider over nodes: sandboxes of other machines, over HTTP.

Law     what it raises is what the provider there raises; a node that can't be reached is a SandboxError, never a
        command's output. Its sandboxes on a node belong to one lease; where that is lost they are gone, and the next
        `create` there opens another.
Places  clients place and nodes admit: see `placement`. There is nothing between them that could fail by itself.
"""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from paddock.sandbox.failures import ImageMissing, SandboxError, SandboxGone
from paddock.sandbox.layers import Archive, Patch
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
from paddock.sandbox.remote.lease import NodeLease
from paddock.sandbox.remote.node import LOST
from paddock.sandbox.remote.placement import Grant
from paddock.sandbox.remote.pool import NodePool
from paddock.sandbox.remote.room import NodeFullError
from paddock.sandbox.remote.tunnel import LinkListener
from paddock.sandbox.remote.wire import Nothing
from paddock.sandbox.requests import RequestLog
from paddock.sandbox.settings import SandboxSettings
from paddock.tracing import traced

_log = logging.getLogger("paddock.sandbox")


class _HeldSandbox(NamedTuple):
    handle: SandboxHandle
    lease: NodeLease
    grant: Grant


class RemoteProvider:
    """Sandboxes on the nodes of the settings; made in a running event loop."""

    def __init__(self, settings: SandboxSettings, *, token: str | None = None) -> None:
        """`token`: before that of the settings."""
        self.settings = settings
        self._pool = NodePool(settings, token)
        self._tickets = itertools.count()
        self._sandboxes: dict[str, _HeldSandbox] = {}
        self._tunnels: dict[str, list[LinkListener]] = {}
        self._requests = RequestLog()

    @traced("sandbox create")
    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        return await self._requests.once(
            ("create", request_id), lambda: self._create(spec), lambda handle: self.destroy(handle.sandbox_id)
        )

    @traced("sandbox destroy")
    async def destroy(self, sandbox_id: str) -> None:
        held = self._sandboxes.pop(sandbox_id, None)
        if held is None:
            return
        self._requests.forget(sandbox_id)
        await asyncio.shield(self._destroy(sandbox_id, held))

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

    @traced("sandbox patch")
    async def patch(self, sandbox_id: str, root: str, *, exclude: Sequence[str] = (), ended: bool = False) -> Patch:
        request = wire.PatchRequest(root=root, exclude=list(exclude), ended=ended)
        return await call(self._held(sandbox_id), wire.PATCH, request, sandbox_id=sandbox_id)

    @traced("sandbox archive")
    async def archive(
        self,
        sandbox_id: str,
        paths: Sequence[str],
        *,
        exclude: Sequence[str] = (),
        max_bytes: int,
        ended: bool = False,
    ) -> Archive:
        request = wire.ArchiveRequest(paths=list(paths), exclude=list(exclude), max_bytes=max_bytes, ended=ended)
        return await call(self._held(sandbox_id), wire.ARCHIVE, request, sandbox_id=sandbox_id)

    async def snapshot(self, sandbox_id: str, name: str) -> str:
        request = wire.SnapshotName(name=name)
        lease, held = self._held(sandbox_id), self._sandboxes[sandbox_id]
        kept = (await call(lease, wire.SNAPSHOT, request, sandbox_id=sandbox_id)).name
        held.grant.node.images.add(kept)
        return kept

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
        """Why no node can start a sandbox; None: one can."""
        return await self._pool.why_not_ready()

    def live(self) -> list[SandboxHandle]:
        return [held.handle for held in self._sandboxes.values() if not held.lease.lost.done()]

    async def close(self) -> None:
        self._sandboxes.clear()
        await self._pool.close()
        for sandbox_id in list(self._tunnels):
            await self._end_tunnels(sandbox_id)

    async def _create(self, spec: SandboxSpec) -> SandboxHandle:
        ticket = next(self._tickets)
        await self._pool.begin()
        placement = self._pool.placement
        while True:
            grant = await self._room(spec, ticket)
            try:
                handle, lease = await self._pool.client(grant.node).create(spec)
            except NodeFullError as full:
                placement.refuse(grant, full.room)
            except ImageMissing:
                grant.node.images.discard(spec.image)
                placement.give(grant)
                if grant.node.could_have(spec.image):  # it has asked its peers
                    raise
            except SandboxError as error:
                if error.kind in LOST:
                    grant.node.is_in_trouble(error)
                placement.give(grant)
                if error.kind not in LOST:
                    raise
            except BaseException:
                placement.give(grant)
                raise
            else:
                self._sandboxes[handle.sandbox_id] = _HeldSandbox(handle, lease, grant)
                return handle

    async def _room(self, spec: SandboxSpec, ticket: int) -> Grant:
        """Room for a sandbox. An image of which no node has told may have been made since."""
        try:
            return await self._pool.placement.take(spec, ticket)
        except ImageMissing:
            await self._pool.ask_all()
            return await self._pool.placement.take(spec, ticket)

    async def _destroy(self, sandbox_id: str, held: _HeldSandbox) -> None:
        try:
            await call(held.lease, wire.DESTROY, Nothing(), sandbox_id=sandbox_id)
        except SandboxError as error:
            _log.warning("sandbox %s was not destroyed by this client, and ends with its lease: %s", sandbox_id, error)
        finally:
            self._pool.placement.give(held.grant)
        await self._end_tunnels(sandbox_id)

    async def _exec(self, sandbox_id: str, request: ExecRequest) -> ExecResult:
        timeout_s = self._deadline_s(request.timeout_s)
        return await call(self._held(sandbox_id), wire.EXEC, request, timeout_s=timeout_s, sandbox_id=sandbox_id)

    def _held(self, sandbox_id: str) -> NodeLease:
        held = self._sandboxes.get(sandbox_id)
        if held is None or held.lease.lost.done():
            raise SandboxGone(sandbox_id)
        return held.lease

    def _deadline_s(self, limit_s: float | None) -> float | None:
        return None if limit_s is None else limit_s + self.settings.answer_margin_s

    async def _end_tunnels(self, sandbox_id: str) -> None:
        for listener in self._tunnels.pop(sandbox_id, []):
            await listener.end()


def _file(sandbox_id: str) -> str:
    return wire.FILE.format(sandbox_id=quote(sandbox_id, safe=""))
