"""Weights to the engines that sample: to all at once, over one group, each weight once.

Update  check the health of each; pause those that are well, keeping their requests; connect, where the group is another
        than last time; send; resume, in any case. One that is dead, refuses, hangs, or does not load is left out and
        named. Where it broke the group for all, a new one is made without it, and the others are sent the weights
        again.
Broken  an update that fails half-way, or whose trainer dies, leaves unknown weights.
        Therefore the engine's label is `INCOMPLETE` before the first byte is sent, and the version's number after the
        last: what is sampled between is masked as of unknown weights. It is resumed all the same: paused it would look
        well, and keep its rollouts waiting for ever. Whether it is well is its model server's to find out.
Shared  an engine on the trainer's own GPU sleeps while it trains (`sleep_engines`): it takes memory for weights, gets
        them, and takes memory for its cache when the trainer has left (`leave`).
Rank    rank 0 of the trainer alone sends. It listens on `address`, on a free port for each group.
Stuck   a call that an engine does not answer in `timeout_s` goes on by itself, and the engine is left out while it
        does. A communicator of NCCL that all have come for and that is not made in time can't be taken back: that ends
        the run, which goes on from its checkpoint.
Units   seconds. Every wait ends: calls after `timeout_s` of the settings, a transfer as `engine_group` says.
Errors  InfraError `transfer_stuck`, not retryable. None else of a replica: see `SendResult.failed`. What the weights'
        source raises is raised.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from paddock.errors import InfraError
from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult, WeightsSource
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.threads import in_thread
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferGroup, TransferTarget

if TYPE_CHECKING:
    import torch

    from paddock.server.vllm.weights.collectives import Transport

T = TypeVar("T")
_log = logging.getLogger(__name__)
INCOMPLETE = "incomplete"
"""Label of an engine during an update; no version has that name."""
FAILED_CALL_S = 2.0
"""How long one that has failed in this update is waited for; then its call goes on by itself."""
MAX_UNEXPLAINED = 2
"""Groups of one update that may break without anyone to blame."""
LOOPBACK = "127.0.0.1"


Connect = Callable[[Sequence[TransferTarget]], TransferGroup]
"""Connects to some engines; BrokenGroupError."""


class _ReplicaUpdate(NamedTuple):
    """One replica during an update."""

    replica: ReplicaInfo
    control: ReplicaControl


class WeightSender:
    """Sends weights to replicas, and holds the connection to them."""

    def __init__(
        self,
        connect: Connect,
        settings: WeightsSettings,
        *,
        control: Callable[[str, str | None], ReplicaControl] = ReplicaControl,
        colocated: bool = False,
    ):
        """`colocated`: engines have the trainer's GPU."""
        self._colocated = colocated
        self._connect = connect
        self._settings = settings
        self._control = control
        self._group: TransferGroup | None = None
        self._members: tuple[ReplicaInfo, ...] = ()
        """Those in the group."""
        self._touched: tuple[ReplicaInfo, ...] = ()
        """Those that the last update was for, and that were well."""
        self._unanswered: dict[ReplicaInfo, Future[Any]] = {}
        """Calls that had no answer in time, and may have one yet."""

    def send(
        self,
        version: int,
        source: WeightsSource,
        replicas: Sequence[ReplicaInfo],
        *,
        clear_cache: bool,
        leave: Callable[[], None] = lambda: None,
    ) -> SendResult:
        """Send what `source` gives; it is asked again for each further group that it takes. `leave`: called when it is
        not asked any more, before engines take memory for their cache; what it raises is raised."""
        update = _Update(str(version), self._settings.timeout_s)
        members = [_ReplicaUpdate(replica, self._control(replica.url, replica.token)) for replica in replicas]
        update.on_each(members, lambda member: member.control.check_health(), self._unanswered)
        touched = update.left(members)
        self._touched = tuple(member.replica for member in touched)
        began = time.monotonic()
        try:
            update.on_each(touched, partial(self._pause, clear_cache=clear_cache), self._unanswered)
            paused = time.monotonic()
            self._transfer(update, touched, source)
            sent = time.monotonic()
        finally:
            try:
                leave()
            finally:
                update.on_each(touched, self._resume, self._unanswered)
        done = tuple(member.replica.name for member in update.left(members))
        return SendResult(version, done, paused - began, sent - paused, time.monotonic() - sent, update.failed)

    def sleep_engines(self) -> None:
        """Let the engines sleep that weights were sent to; one that is dead holds no memory. InfraError
        `engine_awake`, where one is alive and does not."""
        for replica in self._touched:
            control = self._control(replica.url, replica.token)
            try:
                control.check_health()
            except InfraError as error:
                _log.warning("%s does not answer, and is not put to sleep: %s", replica.name, error.message)
                continue
            try:
                control.sleep()
            except InfraError as error:
                raise InfraError(
                    f"{replica.name} has not given its memory back, which training needs: {error.message}",
                    kind="engine_awake",
                ) from error

    def close(self) -> None:
        """End the connection, so that another trainer may connect."""
        members = self._members
        self._drop()
        for replica in members:
            with suppress(InfraError):  # it may be gone as well, and whoever connects next takes our place anyway
                self._control(replica.url, replica.token).forget_trainer()

    def _pause(self, member: _ReplicaUpdate, *, clear_cache: bool) -> None:
        if self._colocated:
            member.control.sleep()
            member.control.wake_up("weights")
        else:
            member.control.pause(clear_cache=clear_cache)
        member.control.set_version(INCOMPLETE)

    def _resume(self, member: _ReplicaUpdate) -> None:
        if self._colocated:
            member.control.wake_up()
        member.control.resume()

    def _transfer(self, update: "_Update", members: Sequence[_ReplicaUpdate], source: WeightsSource) -> None:
        updated: set[str] = set()
        unexplained = 0
        while True:
            left = [member for member in update.left(members) if member.replica.name not in updated]
            try:
                group = self._group_of(update, left)
                failed = group.send(source(), update.version) if group is not None else {}
            except BrokenGroupError as broken:
                self._drop()
                updated |= broken.updated
                unexplained += not broken.blamed
                alive = [member.replica.name for member in left if member.replica.name not in updated]
                update.fail(broken.blamed if unexplained < MAX_UNEXPLAINED else dict.fromkeys(alive, broken.cause))
                _log.warning("the transfer of weights %s broke (%s); %s", update.version, broken, update.failed_text)
            except BaseException:
                self._drop()
                raise
            else:
                update.fail(failed)
                if failed:
                    self._drop()
                return

    def _group_of(self, update: "_Update", members: Sequence[_ReplicaUpdate]) -> TransferGroup | None:
        """The group of just these; None: there is nobody left."""
        replicas = tuple(member.replica for member in members)
        if self._group is None or replicas != self._members:
            self._drop()
            counts = update.on_each(members, lambda member: member.control.n_workers(), self._unanswered)
            members = update.left(members)
            engines = [
                TransferTarget(member.replica.name, member.control, counts[member.replica.name]) for member in members
            ]
            self._group = self._connect(engines) if engines else None
            self._members = tuple(member.replica for member in members)
        return self._group

    def _drop(self) -> None:
        group, self._group, self._members = self._group, None, ()
        if group is not None:
            with suppress(Exception):  # broken already
                group.close()


class _Update:
    """One update, and what becomes of each replica in it."""

    def __init__(self, version: str, timeout_s: float) -> None:
        self.version = version
        self.failed: dict[str, str] = {}
        self._timeout_s = timeout_s

    @property
    def failed_text(self) -> str:
        return ", ".join(f"{name}: {why}" for name, why in self.failed.items()) or "all are sent them again"

    def left(self, members: Sequence[_ReplicaUpdate]) -> list[_ReplicaUpdate]:
        """Those that have not failed."""
        return [member for member in members if member.replica.name not in self.failed]

    def fail(self, errors: Mapping[str, BaseException]) -> None:
        for name, error in errors.items():
            text = f"{type(error).__name__}: {error}"
            self.failed[name] = f"{self.failed[name]}; then {text}" if name in self.failed else text

    def on_each(
        self,
        members: Sequence[_ReplicaUpdate],
        work: Callable[[_ReplicaUpdate], T],
        unanswered: dict[ReplicaInfo, "Future[Any]"],
    ) -> dict[str, T]:
        """The results of work on all at once, by name; whoever raises, or does not end in time, has failed."""
        for replica in [replica for replica, call in unanswered.items() if call.done()]:
            del unanswered[replica]
        calls = {
            member.replica: in_thread(partial(work, member)) for member in members if member.replica not in unanswered
        }
        # One that has failed may hang: the others are not to wait for it.
        wait([calls[member.replica] for member in self.left(members) if member.replica in calls], self._timeout_s)
        late = wait(calls.values(), min(FAILED_CALL_S, self._timeout_s)).not_done
        unanswered.update((replica, call) for replica, call in calls.items() if call in late)
        results: dict[str, T] = {}
        for member in members:
            name, call = member.replica.name, calls.get(member.replica)
            if call is None or call in late:
                self.fail({name: TimeoutError(f"{name} has not answered yet")})
            elif (error := call.exception()) is not None:
                self.fail({name: error})
            else:
                results[name] = call.result()
        return results


def vllm_sender(
    settings: WeightsSettings,
    *,
    transport: "Transport",
    device: "torch.device",
    address: str = LOOPBACK,
    colocated: bool = False,
) -> WeightSender:
    """A sender to real vLLMs. `device`: the GPU from which NCCL sends, or that the engines share for `cuda_ipc`."""

    def connect(engines: Sequence[TransferTarget]) -> TransferGroup:
        from paddock.server.vllm.weights.engine_group import EngineGroup

        return EngineGroup.connect(engines, settings, address=address, transport=transport, device=device)

    return WeightSender(connect, settings, colocated=colocated)
