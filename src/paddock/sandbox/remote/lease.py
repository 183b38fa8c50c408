"""A client's lease at a node: renewed while the client lives, lost where the node does not answer in its time.

Law     the client gives a lease up no later than the node does: it counts from when it sent the last renewal that was
        answered, the node from when that came. What waits for the node then fails, and is never taken for an answer.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import ValidationError

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.remote.http import OK, Message, NodeHttp, UnreachableError
from paddock.sandbox.remote.wire import (
    DONE_HEADER,
    LEASE_HEADER,
    LEASE_UNKNOWN,
    LEASES,
    RENEWAL,
    WAITING_HEADER,
    LeaseGrant,
    LeaseRequest,
    encode,
)

RENEWALS = 4
"""Tries in the time of a lease."""
MAX_DONE = 64
"""Ids of calls in one message."""
_log = logging.getLogger("paddock.sandbox")


class NodeLease:
    """One lease, renewed in the background."""

    def __init__(self, http: NodeHttp, lease_id: str, ttl_s: float, opened_at: float) -> None:
        """`opened_at`: the loop's time at which it was asked for."""
        self.http = http
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it is no more."""
        self.done: list[str] = []
        """Ids of calls that nobody waits for, to be told to the node."""
        self.waiting = 0
        """Sandboxes that this client wants and has no room for, told to the node."""
        self._id = lease_id
        self._ttl_s = ttl_s
        self._ends_at = opened_at + ttl_s
        self._limits: set[asyncio.Timeout] = set()
        """Of those who wait for answers."""
        self._held: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.ensure_future(self._renew_on())

    def headers(self) -> dict[str, str]:
        """The headers of a message in its name; pass them to `delivered` once it was answered."""
        headers = {LEASE_HEADER: self._id}
        if self.done:
            headers[DONE_HEADER] = ",".join(self.done[:MAX_DONE])
        if self.waiting:
            headers[WAITING_HEADER] = str(self.waiting)
        return headers

    def delivered(self, headers: dict[str, str]) -> None:
        """The node has read what these headers say of calls."""
        for call_id in headers.get(DONE_HEADER, "").split(","):
            with suppress(ValueError):  # another message has said it meanwhile
                self.done.remove(call_id)

    def hold(self, act: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start what goes on where whoever waits for it is cancelled."""
        task = asyncio.ensure_future(act)
        self._held.add(task)
        task.add_done_callback(self._held.discard)
        return task

    def lose(self, reason: str) -> None:
        """Give it up; idempotent."""
        self._renewing.cancel()
        if self.lost.done():
            return
        self.lost.set_result(reason)
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)

    @contextmanager
    def ending(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Have a limit of time pass at once where the lease is lost meanwhile."""
        self._limits.add(limit)
        try:
            yield
        finally:
            self._limits.discard(limit)

    def failure(self) -> SandboxError:
        """What those get who wait for an answer when it is lost."""
        return SandboxError(f"{self.http.url}: {self.lost.result()}", kind="node_lost")

    async def end(self, timeout_s: float) -> None:
        """End it at the node too, with all that belongs to it."""
        if self.lost.done():
            return
        self._renewing.cancel()
        try:
            await self.http.send(Message("DELETE", LEASES), self.headers(), timeout_s=timeout_s)
        except UnreachableError as error:
            _log.warning("%s: the lease could not be ended, and ends by itself: %s", self.http.url, error)
        self.lose("this client has closed")

    async def _renew_on(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._ttl_s / RENEWALS
        while True:
            await asyncio.sleep(pause_s)
            sent_at = loop.time()
            headers = self.headers()
            left_s = self._ends_at - sent_at
            try:
                if left_s <= 0:
                    raise UnreachableError("it could not be renewed in time")
                timeout_s = min(left_s, self._ttl_s / RENEWALS)
                answer = await self.http.send(Message("POST", RENEWAL), headers, timeout_s=timeout_s)
            except UnreachableError as error:
                if loop.time() >= self._ends_at:
                    self.lose(f"no answer within lease_ttl_s, {self._ttl_s:g} s: {error}")
                pause_s = min(1.0, self._ttl_s / RENEWALS / 2)
                continue
            pause_s = self._ttl_s / RENEWALS
            if answer.status == OK:
                self._ends_at = sent_at + self._ttl_s
                self.delivered(headers)
            elif answer.error_kind == LEASE_UNKNOWN:
                self.lose("the node has ended the lease, or was started anew")


async def open_lease(http: NodeHttp, ttl_s: float, timeout_s: float) -> NodeLease:
    """A new lease; SandboxError where the node does not give one within `timeout_s`."""
    requested_at = asyncio.get_running_loop().time()
    try:
        answer = await http.send(Message("POST", LEASES, encode(LeaseRequest(ttl_s=ttl_s))), {}, timeout_s=timeout_s)
    except UnreachableError as error:
        raise SandboxError(f"{http.url}: {error}", kind="node_unreachable") from error
    try:
        grant = LeaseGrant.model_validate_json(answer.content(http.url))
    except ValidationError as error:
        raise SandboxError(f"{http.url}: is no node of sandboxes", kind="node_unreadable") from error
    return NodeLease(http, grant.lease_id, ttl_s, requested_at)
