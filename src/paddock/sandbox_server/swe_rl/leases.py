"""Leases of the swe-rl wire: one sandbox each, under one id that is its `lease_id` and its `container_id`.

Law     the client sends no id of its requests, so an answer to `/allocate` that is lost leaves a sandbox that nobody
        knows of: it ends after `claim_timeout_s`. One that is known ends after `lease_timeout_s` without a word. A
        place is free again when its sandbox is destroyed, not before; until then its lease can be closed again.
Errors  LeaseEndedError: it never was, or has ended; SandboxError of kind `pool_full`, or whatever a start may raise.
"""

import asyncio
import logging
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paddock.errors import InfraError, RequestError, RowError
from paddock.sandbox import ImageMissing, Provider, SandboxError, SandboxHandle, SandboxSpec
from paddock.sandbox.images.names import parse_name
from paddock.sandbox.images.prepare import prepare_image, scrub_sandbox
from paddock.sandbox.local import LocalProvider
from paddock.sandbox.records import Purpose
from paddock.sandbox_server.swe_rl.settings import SweRlSettings

RETRY_S = 10.0
"""Seconds until a sandbox that could not be destroyed is tried again."""
_log = logging.getLogger("paddock.sandbox_server")


class LeaseEndedError(RequestError):
    """No such lease."""

    def __init__(self, lease_id: str) -> None:
        super().__init__(f"Unknown lease_id: {lease_id}: it has ended, or another start made it", kind="lease_unknown")


class SweLease:
    """What one allocation holds."""

    def __init__(self, image: str, workdir: str, instance_id: str) -> None:
        self.id = f"swe-{secrets.token_hex(16)}"
        self.image = image
        self.workdir = workdir
        self.instance_id = instance_id
        self.created_at = time.time()
        self.sandbox_id: str | None = None
        self.lost: str | None = None
        """Why its sandbox can't be used any more, where the machine's failure ended it."""
        self.unanswered: dict[bytes, asyncio.Task[Any]] = {}
        """Work whose client has gone, by the request that asked for it."""
        self.in_use = 0
        """Requests that run."""
        self.ended = False
        """Its place is free."""
        self.is_closing = False
        """Its end has begun, and is tried until it is done."""
        self.ending = asyncio.Lock()
        self.timer: asyncio.TimerHandle | None = None

    def check(self) -> str:
        """The sandbox; SandboxError, which no repeat mends, where the machine has lost it."""
        if self.lost is not None or self.sandbox_id is None:
            why = self.lost or "no fresh one could be started"
            raise SandboxError(f"the sandbox is lost: {why}", kind="sandbox_lost", retryable=False)
        return self.sandbox_id


class SweLeases:
    """The leases of one provider."""

    def __init__(self, provider: Provider, settings: SweRlSettings) -> None:
        self._provider = provider
        self._settings = settings
        self._free = asyncio.Semaphore(settings.max_sandboxes)
        self._leases: dict[str, SweLease] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self.waiting = 0
        """Requests for a sandbox that wait for a place."""

    def live(self) -> list[SweLease]:
        return list(self._leases.values())

    async def open(self, image: str, workdir: str, instance_id: str = "", *, claimed: bool = False) -> SweLease:
        """A lease with a sandbox, as soon as there is a place for it. `claimed`: it may be silent from the start."""
        await self._take_place()
        lease = SweLease(image, workdir, instance_id)
        try:
            await self.start_anew(lease, "agent")
        except BaseException:
            self._free.release()
            raise
        self._leases[lease.id] = lease
        settings = self._settings
        self._end_after(lease, settings.lease_timeout_s if claimed else settings.claim_timeout_s)
        return lease

    @contextmanager
    def using(self, lease_id: str) -> Iterator[SweLease]:
        """A lease, which does not end by itself meanwhile."""
        lease = self._leases.get(lease_id)
        if lease is None or lease.is_closing:
            raise LeaseEndedError(lease_id)
        lease.in_use += 1
        if lease.timer is not None:
            lease.timer.cancel()  # it is set again below
        try:
            yield lease
        finally:
            lease.in_use -= 1
            if not lease.in_use and not lease.is_closing:
                self._end_after(lease, self._settings.lease_timeout_s)

    async def start_anew(self, lease: SweLease, purpose: Purpose) -> str:
        """Give a lease a fresh sandbox in place of the one that it has; returns its id."""
        if lease.is_closing:
            raise LeaseEndedError(lease.id)
        if lease.sandbox_id is not None:
            await self._provider.destroy(lease.sandbox_id)
            lease.sandbox_id = None
        handle = await self._create(lease, purpose)
        if lease.is_closing:
            await self._provider.destroy(handle.sandbox_id)
            raise LeaseEndedError(lease.id)
        lease.sandbox_id, lease.lost = handle.sandbox_id, None
        return handle.sandbox_id

    async def close(self, lease_id: str) -> None:
        """End a lease; of an unknown one nothing is left."""
        lease = self._leases.get(lease_id)
        if lease is not None:
            await asyncio.shield(self._end_in_background(lease))

    async def close_all(self) -> None:
        """End all; their provider is closed next, and ends what could not be."""
        await asyncio.gather(*map(self._end, self.live()), return_exceptions=True)
        for lease in self.live():
            assert lease.timer is not None  # its end has failed, and would be tried again
            lease.timer.cancel()
        if self._endings:
            await asyncio.wait(self._endings)

    async def _take_place(self) -> None:
        self.waiting += 1
        try:
            async with asyncio.timeout(self._settings.queue_timeout_s):
                await self._free.acquire()
        except TimeoutError:
            text = f"all {self._settings.max_sandboxes} sandboxes are in use (max_sandboxes)"
            raise InfraError(text, kind="pool_full") from None
        finally:
            self.waiting -= 1

    async def _create(self, lease: SweLease, purpose: Purpose) -> SandboxHandle:
        """Of the image by the name that was asked for, else by the one that our stores have it under."""
        try:
            return await self._create_of(lease.image, lease, purpose)
        except ImageMissing:
            try:
                name = str(parse_name(lease.image))
            except RowError:
                name = lease.image
            if name == lease.image:
                raise
        return await self._create_of(name, lease, purpose)

    async def _create_of(self, image: str, lease: SweLease, purpose: Purpose) -> SandboxHandle:
        scrubbed = purpose == "agent" and self._settings.scrub
        at_hand = scrubbed and isinstance(self._provider, LocalProvider)
        if at_hand:
            assert isinstance(self._provider, LocalProvider)
            image = await prepare_image(self._provider, image, lease.workdir)
        spec = SandboxSpec(
            image=image,
            workdir=lease.workdir,
            limits=self._settings.limits,
            purpose=purpose,
            labels={"instance": lease.instance_id, "for": "swe-rl"},
        )
        handle = await self._provider.create(spec, request_id=uuid.uuid4().hex)
        if scrubbed and not at_hand:
            try:
                await scrub_sandbox(self._provider, handle.sandbox_id, image, lease.workdir)
            except BaseException:
                await asyncio.shield(self._provider.destroy(handle.sandbox_id))
                raise
        return handle

    def _end_after(self, lease: SweLease, seconds: float) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        lease.timer = asyncio.get_running_loop().call_later(seconds, self._expire, lease, seconds)

    def _expire(self, lease: SweLease, seconds: float) -> None:
        if not lease.is_closing:
            _log.warning("nobody asked anything of sandbox %s (%s) for %g s: it ends", lease.id, lease.image, seconds)
        self._end_in_background(lease)

    def _end_in_background(self, lease: SweLease) -> "asyncio.Task[None]":
        """An end goes on where whoever asked for it has gone."""
        ending = asyncio.ensure_future(self._end(lease))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        ending.add_done_callback(_report)
        return ending

    async def _end(self, lease: SweLease) -> None:
        async with lease.ending:
            if lease.ended:
                return
            lease.is_closing = True
            for task in lease.unanswered.values():
                task.cancel()
            lease.unanswered.clear()
            try:
                if lease.sandbox_id is not None:
                    await self._provider.destroy(lease.sandbox_id)
            except BaseException:
                self._end_after(lease, RETRY_S)
                raise
            lease.ended = True
            del self._leases[lease.id]
            self._free.release()
            if lease.timer is not None:
                lease.timer.cancel()


def _report(ending: "asyncio.Task[None]") -> None:
    if not ending.cancelled() and (error := ending.exception()) is not None:
        _log.error("a sandbox could not be destroyed: %s: %s", type(error).__name__, error)
