"""Where a sandbox is made: of the nodes that have its image, else of those that can fetch it, the one with the fewest
of its group, then the one with most room; in a queue where none has any.

Groups  of this client alone: what others have made there is not known. The image comes first, as all of a group have
        the same: a node without it would fetch gigabytes for one of them. `paddock images spread` puts it on many.
Law     first come, first served: nobody overtakes one who waits for the same node. Who waits is let go by his own
        deadline, or by an error when no node that could hold the sandbox has been well for a while; never because all
        are full.
Errors  SandboxError `node_unreachable`, `no_nodes`; ImageMissing: no node has the image; ConfigError: it would fit on
        none.
"""

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

from paddock.errors import ConfigError, PaddockError
from paddock.sandbox.admission import Capacity, describe
from paddock.sandbox.failures import ImageMissing, SandboxError
from paddock.sandbox.records import SandboxSpec
from paddock.sandbox.remote.node import NodeState
from paddock.sandbox.remote.room import NodeRoom


class Grant(NamedTuple):
    """Room on a node."""

    node: NodeState
    demand: Capacity
    group: str | None = None


class _WaitingCreate(NamedTuple):
    ticket: int
    spec: SandboxSpec
    granted: "asyncio.Future[Grant]"
    since: float


class NodePlacement:
    """Of one client over its nodes."""

    def __init__(self, nodes: Sequence[NodeState], *, max_sandboxes: int | None, patience_s: float) -> None:
        """`patience_s`: for how long nodes that are in trouble are waited for."""
        self.nodes = list(nodes)
        """The nodes on which it places; one that is taken out keeps what was granted there."""
        self.why_empty = "no node is known"
        """Why there is none."""
        self._max_sandboxes = max_sandboxes
        self._patience_s = patience_s
        self._n_granted = 0
        self._of_groups: Counter[tuple[str, str]] = Counter()
        """Sandboxes by the URL of their node and their group."""
        self._queue: list[_WaitingCreate] = []

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def take(self, spec: SandboxSpec, ticket: int) -> Grant:
        """Wait for room. `ticket`: the lower, the earlier one came."""
        loop = asyncio.get_running_loop()
        waiter = _WaitingCreate(ticket, spec, loop.create_future(), loop.time())
        insort(self._queue, waiter, key=lambda one: one.ticket)
        self.place()
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
                self.give(waiter.granted.result())  # granted to a task that was cancelled
            raise
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
                self.place()  # those who waited behind it may have room

    def give(self, grant: Grant) -> None:
        """Give room back."""
        self._count_out(grant)
        grant.node.free = grant.node.free.plus(grant.demand)
        grant.node.refused = False
        self.place()

    def refuse(self, grant: Grant, room: NodeRoom) -> None:
        """The node has no such room: this is what it has."""
        self._count_out(grant)
        grant.node.take_note(room)
        grant.node.refused = True
        self.place()

    def place(self) -> None:
        """Grant what there is to those who wait."""
        closed = {node.url for node in self.nodes if not node.is_open}
        for waiter in self._still_waiting():
            if len(closed) == len(self.nodes) or self._n_granted == self._max_sandboxes:
                return
            try:
                able = [node for node in self._able(waiter.spec, waiter.since) if node.url not in closed]
            except PaddockError as error:
                self._let_go(waiter, error)
                continue
            with_room = [node for node in able if node.room_left(waiter.spec) >= 0]
            if with_room:
                self._grant(waiter, max(with_room, key=partial(self._rank, waiter.spec)))
            else:
                closed.update(node.url for node in able)

    def let_go_of_the_lost(self) -> None:
        """Fail those for whom no node will have room, by what is known."""
        for waiter in self._still_waiting():
            try:
                self._able(waiter.spec, waiter.since)
            except PaddockError as error:
                self._let_go(waiter, error)

    def close(self) -> None:
        """Let go of all who wait."""
        for waiter in self._still_waiting():
            self._let_go(waiter, SandboxError("this client has closed", kind="closed", retryable=False))

    def _still_waiting(self) -> list[_WaitingCreate]:
        """In order, without those that are cancelled and have not left yet."""
        return [waiter for waiter in self._queue if not waiter.granted.done()]

    def _rank(self, spec: SandboxSpec, node: NodeState) -> tuple[bool, int, float]:
        """How well a sandbox is placed there."""
        of_group = 0 if spec.group is None else self._of_groups[node.url, spec.group]
        return spec.image in node.images, -of_group, node.room_left(spec)

    def _grant(self, waiter: _WaitingCreate, node: NodeState) -> None:
        self._queue.remove(waiter)
        grant = Grant(node, node.demand(waiter.spec), waiter.spec.group)
        node.free = node.free.less(grant.demand)
        self._n_granted += 1
        node.n_granted += 1
        if grant.group is not None:
            self._of_groups[node.url, grant.group] += 1
        waiter.granted.set_result(grant)

    def _count_out(self, grant: Grant) -> None:
        self._n_granted -= 1
        grant.node.n_granted -= 1
        if grant.group is not None:
            place = grant.node.url, grant.group
            self._of_groups[place] -= 1
            if not self._of_groups[place]:
                del self._of_groups[place]

    def _let_go(self, waiter: _WaitingCreate, error: PaddockError) -> None:
        self._queue.remove(waiter)
        waiter.granted.set_exception(error)

    def _able(self, spec: SandboxSpec, since: float) -> list[NodeState]:
        """The nodes that could hold a sandbox; raises where there is none, and none is worth waiting for."""
        now = asyncio.get_running_loop().time()
        if not self.nodes:
            if now <= since + self._patience_s:
                return []
            raise SandboxError(self.why_empty, kind="no_nodes")
        able = [node for node in self.nodes if node.could_have(spec.image) and node.could_hold(spec)]
        if any(node.trouble is None for node in able):
            return able
        lost = [node for node in self.nodes if node.trouble and (node.room is None or node in able)]
        if not lost:
            raise self._why_never(spec)
        passing = [node for node in lost if node.trouble and node.trouble.retryable]
        latest = max((node.troubled_since for node in passing), default=float("-inf"))
        if passing and now <= max(latest, since) + self._patience_s:
            return able
        troubles = [node.trouble for node in (passing or lost) if node.trouble]
        message = "; ".join(trouble.message for trouble in troubles)
        raise SandboxError(message, kind=troubles[0].kind, retryable=troubles[0].retryable)

    def _why_never(self, spec: SandboxSpec) -> PaddockError:
        images = {name for node in self.nodes for name in node.images}
        holders = [node for node in self.nodes if node.could_have(spec.image)]
        if not holders:
            near = get_close_matches(spec.image, images, n=1)
            hint = f"; nearest: {near[0]!r}" if near else ""
            places = ", ".join(node.url for node in self.nodes)
            return ImageMissing(f"{spec.image!r}: no node has this image ({places}){hint}", kind="image_missing")
        rooms = "; ".join(f"{node.url}: {describe(node.room.admission.total())}" for node in holders if node.room)
        demand = describe(holders[0].demand(spec))
        return ConfigError(
            f"a sandbox that is counted as {demand} never fits on a node: {rooms}; lower limits.memory_mib, or raise "
            "the nodes' admission",
            kind="never_admitted",
        )
