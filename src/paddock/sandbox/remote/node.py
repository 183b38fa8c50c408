"""One node as its client sees it: how it is, what room and which images it has, and the lease of this client there.

Law     a node is in trouble from its first failure until it has said that it is well; what is known of its room is what
        it last said, less what this client was granted since.
Errors  SandboxError of kind `node_unreachable`, `node_lost`, `node_unreadable` or `node_unwell`.
"""

import asyncio
from typing import TypeVar

from pydantic import ValidationError

from paddock.errors import PaddockError
from paddock.sandbox.admission import Capacity
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.records import SandboxHandle, SandboxSpec
from paddock.sandbox.remote import wire
from paddock.sandbox.remote.calls import call
from paddock.sandbox.remote.http import OK, Message, NodeAnswer, NodeHttp, UnreachableError
from paddock.sandbox.remote.lease import NodeLease, open_lease
from paddock.sandbox.remote.room import ImageNames, NodeRoom, NodeStatus
from paddock.sandbox.settings import SandboxSettings
from paddock.types import Record

LOST = frozenset({"node_lost", "node_unreachable"})
"""Kinds of failures after which a sandbox may be made on another node."""
R = TypeVar("R", bound=Record)


class NodeState:
    """What is known of a node."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.trouble: SandboxError | None = SandboxError(f"{url}: has not answered yet", kind="node_unreachable")
        """Why nothing can be placed there; None: it is well."""
        self.troubled_since = asyncio.get_running_loop().time()
        self.room: NodeRoom | None = None
        """None: it has never said."""
        self.free = Capacity(0.0, 0.0)
        self.refused = False
        """It had no room for what seemed to fit; nothing has changed there since, as far as is known."""
        self.images: set[str] = set()
        self.n_granted = 0
        """Sandboxes for which this client has room there."""

    @property
    def is_open(self) -> bool:
        """Whether it takes sandboxes."""
        return self.trouble is None and self.room is not None and not self.room.draining and not self.refused

    def demand(self, spec: SandboxSpec) -> Capacity:
        """What the sandbox is counted as there."""
        assert self.room is not None  # it has said
        return self.room.admission.demand(spec.limits.memory_mib)

    def could_have(self, image: str) -> bool:
        """Whether the image is there, or may be fetched."""
        return image in self.images or (self.room is not None and self.room.fetches_images)

    def could_hold(self, spec: SandboxSpec) -> bool:
        """Whether the sandbox would fit if it were alone there."""
        return self.room is not None and self.demand(spec).fits(self.room.admission.total())

    def room_left(self, spec: SandboxSpec) -> float:
        """The share of its scarcest part that is left with the sandbox there; below 0: it does not fit."""
        assert self.room is not None  # it has said
        left, total = self.free.less(self.demand(spec)), self.room.admission.total()
        return min(own / most for own, most in zip(left, total, strict=True) if 0 < most < float("inf"))

    def take_note(self, room: NodeRoom) -> None:
        """What the node says of its room."""
        self.room = room
        self.free = room.free.amount
        self.refused = False

    def is_in_trouble(self, error: SandboxError) -> None:
        if self.trouble is None:
            self.troubled_since = asyncio.get_running_loop().time()
        self.trouble = error


class NodeClient:
    """The client of one node; made in a running event loop."""

    def __init__(self, url: str, token: str | None, settings: SandboxSettings) -> None:
        self.state = NodeState(url.rstrip("/"))
        self._http = NodeHttp(url, token, settings.node_ca_file)
        self._settings = settings
        self.last_status: NodeStatus | None = None
        """What it last said of itself."""
        self._images_mark = ""
        self._lease: NodeLease | None = None
        self._opening = asyncio.Lock()

    async def create(self, spec: SandboxSpec) -> tuple[SandboxHandle, NodeLease]:
        lease = await self._live_lease()
        return await call(lease, wire.CREATE, spec), lease

    def say_waiting(self, waiting: int) -> None:
        """Have the node know for how many sandboxes this client waits, by what is sent next."""
        if self._lease is not None:
            self._lease.waiting = waiting

    async def ask(self) -> None:
        """Ask how it is, what room it has and, where they have changed, which images; all that goes wrong is its
        trouble."""
        try:
            answer = await self._send(Message("GET", wire.HEALTH))
            status = self.last_status = self._read(NodeStatus, await self._send(Message("GET", wire.STATUS)))
            if answer.status != OK:
                reason = answer.json.get("reason") if isinstance(answer.json, dict) else None
                raise SandboxError(f"{self.state.url}: {reason or answer.status}", kind="node_unwell")
            if status.images_mark != self._images_mark:
                await self.ask_images()
                self._images_mark = status.images_mark
        except (PaddockError, OSError) as error:
            if not isinstance(error, SandboxError):
                error = SandboxError(f"{self.state.url}: {error}", kind="node_unwell")
            self.state.is_in_trouble(error)
        else:
            self.state.take_note(status.room)
            self.state.trouble = None

    async def order(self, path: str) -> None:
        """Have it drain, or take sandboxes again."""
        self.last_status = self._read(NodeStatus, await self._send(Message("POST", path)))

    async def ask_images(self) -> None:
        self.state.images = set(self._read(ImageNames, await self._send(Message("GET", wire.IMAGES))).names)

    async def close(self) -> None:
        """End the lease, and all that belongs to it."""
        if self._lease is not None:
            await self._lease.end(self._settings.answer_margin_s)
        await self._http.close()

    async def _send(self, message: Message) -> NodeAnswer:
        timeout_s = question_timeout_s(self._settings)
        try:
            return await self._http.send(message, {}, timeout_s=timeout_s)
        except UnreachableError as error:
            raise SandboxError(f"{self.state.url}: {error}", kind="node_unreachable") from error

    def _read(self, cls: type[R], answer: NodeAnswer) -> R:
        try:
            content = answer.content(self.state.url)
            return wire.decode(cls, content)
        except ValidationError as error:
            raise SandboxError(f"{self.state.url}: is no node of sandboxes", kind="node_unreadable") from error

    async def _live_lease(self) -> NodeLease:
        async with self._opening:
            if self._lease is None or self._lease.lost.done():
                self._lease = await open_lease(self._http, self._settings.lease_ttl_s, self._settings.answer_margin_s)
            return self._lease


def question_timeout_s(settings: SandboxSettings) -> float:
    """Seconds that a node may take to say how it is."""
    return min(settings.answer_margin_s, settings.node_health_s)
