"""Leases of the clients of a node: all that a client has made belongs to its lease, and ends with it.

Law     a lease that is not renewed within its time is ended: its calls are ended and its sandboxes destroyed, no other
        lease's. A client sees and acts on the sandboxes of its own lease alone: another's is gone for it.
Errors  LeaseUnknownError: it never was, has ended, or is another node's.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from paddock.errors import RequestError
from paddock.sandbox import SandboxGone, SandboxHandle
from paddock.sandbox.remote.wire import LEASE_UNKNOWN
from paddock.sandbox_server.calls import NodeCalls
from paddock.sandbox_server.tunnels import NodeTunnel

LEASE_BYTES = 24
_log = logging.getLogger("paddock.sandbox_server")


class SandboxDestroyer(Protocol):
    async def destroy(self, sandbox_id: str) -> None: ...


class LeaseUnknownError(RequestError):
    status = 410

    def __init__(self) -> None:
        super().__init__("no such lease: it has ended, or this node was started anew", kind=LEASE_UNKNOWN)


class ClientLease:
    """What one client holds, and until when."""

    def __init__(self, ttl_s: float, destroyer: SandboxDestroyer) -> None:
        self.id = secrets.token_urlsafe(LEASE_BYTES)
        self.ttl_s = ttl_s
        self.calls = NodeCalls()
        self.sandboxes: dict[str, SandboxHandle] = {}
        self.tunnels: dict[tuple[str, str], NodeTunnel] = {}
        """By the ids of sandbox and tunnel."""
        self.ended = False
        self.waiting = 0
        """Sandboxes that this client wants and has no room for, as it says."""
        self._destroyer = destroyer

    def check(self, sandbox_id: str) -> None:
        """SandboxGone unless it is this lease's."""
        if sandbox_id not in self.sandboxes:
            raise SandboxGone(sandbox_id)

    async def add(self, handle: SandboxHandle) -> None:
        """Take a sandbox over; where the lease has ended meanwhile, it is destroyed."""
        if self.ended:
            await self._destroyer.destroy(handle.sandbox_id)
            raise SandboxGone(handle.sandbox_id, "its lease has ended")
        self.sandboxes[handle.sandbox_id] = handle

    async def destroy(self, sandbox_id: str) -> None:
        """Destroy one of its own; of another's nothing is known."""
        if self.sandboxes.pop(sandbox_id, None) is not None:
            # Tunnels end last: no command sees one break, and ends as if by itself.
            try:
                await self._destroyer.destroy(sandbox_id)
            finally:
                await self.close_tunnels(sandbox_id)

    async def close_tunnels(self, sandbox_id: str | None = None) -> None:
        """Close the tunnels of a sandbox; None: all."""
        for key in [key for key in self.tunnels if sandbox_id in (None, key[0])]:
            await self.tunnels.pop(key).end()

    async def end(self) -> None:
        """End its calls, destroy its sandboxes."""
        self.ended = True
        sandboxes = list(self.sandboxes)
        self.sandboxes.clear()
        # The commands of a sandbox end with it: sooner than one after the other.
        results = await asyncio.gather(*map(self._destroyer.destroy, sandboxes), return_exceptions=True)
        await self.close_tunnels()
        await self.calls.close()
        for error in results:
            if isinstance(error, BaseException):
                _log.error("a sandbox of an ended lease: %s: %s", type(error).__name__, error)


class Leases:
    """The leases of a node."""

    def __init__(self, destroyer: SandboxDestroyer) -> None:
        self._destroyer = destroyer
        self._leases: dict[str, ClientLease] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def waiting(self) -> int:
        """Sandboxes for which clients wait."""
        return sum(lease.waiting for lease in self._leases.values())

    def open(self, ttl_s: float) -> ClientLease:
        lease = ClientLease(ttl_s, self._destroyer)
        self._leases[lease.id] = lease
        self.renew(lease)
        return lease

    def get(self, lease_id: str) -> ClientLease:
        lease = self._leases.get(lease_id)
        if lease is None:
            raise LeaseUnknownError
        return lease

    def renew(self, lease: ClientLease) -> None:
        """It ends `ttl_s` from now unless it is renewed before."""
        if (timer := self._timers.pop(lease.id, None)) is not None:
            timer.cancel()
        self._timers[lease.id] = asyncio.get_running_loop().call_later(lease.ttl_s, self._expire, lease)

    async def end(self, lease: ClientLease) -> None:
        """Idempotent."""
        if self._leases.pop(lease.id, None) is not None:
            self._timers.pop(lease.id).cancel()
            await self._in_background(lease.end)

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*map(self.end, list(self._leases.values())))
        if self._endings:
            await asyncio.wait(self._endings)

    def _expire(self, lease: ClientLease) -> None:
        _log.warning("a lease was not renewed in %g s: its %d sandboxes end", lease.ttl_s, len(lease.sandboxes))
        self._leases.pop(lease.id, None)
        self._timers.pop(lease.id, None)
        self._in_background(lease.end)

    def _in_background(self, act: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Future[None]":
        """An end goes on where whoever asked for it has gone."""
        task = asyncio.ensure_future(act())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return asyncio.shield(task)
