"""Weights to the engines that sample: to each vLLM in turn, through its own interface for weight transfer.

One     is it well; connect, where it is not connected (a replica that was started anew is not); pause, keeping what
        runs; send; resume, in any case. One that is dead or refuses is left out and named, and the others get theirs.
Broken  an update that fails half-way, or whose trainer dies, leaves weights of which nobody knows what they are.
        Therefore the engine's label is `INCOMPLETE` before the first byte is sent, and the version's number after the
        last: what is sampled between is masked as of unknown weights. The next sending connects anew. It is resumed
        all the same: paused it would look well, and keep its rollouts waiting for ever.
Place   rank 0 of the trainer alone; weights of a sharded model are gathered before. It listens on `address`, on a free
        port for each replica. Over `gloo` between CPUs (a plugin of vLLM that registers itself), `nccl` between GPUs.
Stuck   NCCL has no deadline of its own, and vLLM's sender no way to take back what it began: a replica that dies
        meanwhile leaves the thread waiting and its kernel on the GPU, where training would wait behind it. So with NCCL
        a connection and a transfer have a thread each, and one that has not ended after `STUCK_AFTER_S` ends the run,
        which goes on from its checkpoint, in place of blocking it for `paddock.policy_timeout_s`.
Units   seconds. Every wait ends: this module's HTTP calls after their deadlines, those of vLLM's client after
        `TRANSFER_TIMEOUT_S`, broadcasts over gloo after the transfer's own (two minutes), NCCL's as told above.
Errors  InfraError `transfer_stuck`, not retryable. None else of a replica: see `Sent.failed`. An environment without
        vLLM is an ImportError.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from paddock.errors import InfraError
from paddock.training.grpo.replica_control import ReplicaControl
from paddock.training.grpo.roles import Replica, Sent

if TYPE_CHECKING:
    import torch

Backend = Literal["gloo", "nccl"]
Weights = Callable[[], Mapping[str, "torch.Tensor"]]
"""Those that are to be sent now: names of the checkpoint format and whole tensors, the same in each update."""
T = TypeVar("T")
TRANSFER_TIMEOUT_S = 180.0
STUCK_AFTER_S = 240.0
"""Of one connection or transfer over NCCL; longer than vLLM's client waits for its end of it."""
INCOMPLETE = "incomplete"
"""No version has that name."""
LOOPBACK = "127.0.0.1"


class Link(Protocol):
    """One connection: vLLM's `TrainerWeightTransferEngine`."""

    def send_weights(self, weight_version: str | None = None) -> None: ...

    def shutdown(self) -> None: ...


class Connection(NamedTuple):
    replica: Replica
    link: Link


class Times(NamedTuple):
    """Of one replica."""

    pause_s: float
    send_s: float
    resume_s: float


Connect = Callable[[str, int, Weights], Link]
"""URL and number of workers of a vLLM, what is to be sent each time -> connected."""


class Sender:
    """All connections of a trainer."""

    def __init__(
        self,
        connect: Connect,
        *,
        backend: Backend,
        control: Callable[[str], ReplicaControl] = ReplicaControl,
        prepare: Callable[[], None] = lambda: None,
        stuck_after_s: float = STUCK_AFTER_S,
    ):
        """`prepare`: called first in each thread of a connection or transfer."""
        self._connect = connect
        self._backend = backend
        self._control = control
        self._prepare = prepare
        self._stuck_after_s = stuck_after_s
        self._connections: dict[str, Connection] = {}
        self._weights: Mapping[str, torch.Tensor] = {}

    def send(
        self, version: int, weights: Mapping[str, "torch.Tensor"], replicas: Sequence[Replica], *, clear_cache: bool
    ) -> Sent:
        self._weights = weights
        try:
            return self._send(version, replicas, clear_cache=clear_cache)
        finally:
            self._weights = {}

    def _send(self, version: int, replicas: Sequence[Replica], *, clear_cache: bool) -> Sent:
        times: list[Times] = []
        failed: dict[str, str] = {}
        for replica in replicas:
            try:
                times.append(self._send_to(replica, str(version), clear_cache=clear_cache))
            except _StuckError as error:
                self._connections.pop(replica.name, None)  # nobody can shut it down any more
                raise InfraError(f"{replica.name}: {error}", kind="transfer_stuck", retryable=False) from error
            except Exception as error:  # noqa: BLE001 - of one replica, whatever it is; the others go on
                failed[replica.name] = _told(error)
                self._drop(replica.name)
        for name in self._connections.keys() - {one.name for one in replicas}:
            self._drop(name)
        return Sent(
            version=version,
            replicas=tuple(one.name for one in replicas if one.name not in failed),
            pause_s=sum(one.pause_s for one in times),
            send_s=sum(one.send_s for one in times),
            resume_s=sum(one.resume_s for one in times),
            failed=failed,
        )

    def close(self) -> None:
        """Another trainer may connect then."""
        for name, connection in list(self._connections.items()):
            self._drop(name)
            with suppress(InfraError):  # it may be gone as well, and whoever connects next takes our place anyway
                self._control(connection.replica.url).forget_trainer()

    def _send_to(self, replica: Replica, version: str, *, clear_cache: bool) -> Times:
        control = self._control(replica.url)
        control.check_health()
        link = self._connected(replica, control)
        began = time.monotonic()
        try:
            control.pause(clear_cache=clear_cache)
            paused = time.monotonic()
            self._transfer(link, control, version)
            sent = time.monotonic()
        finally:
            control.resume()
        return Times(paused - began, sent - paused, time.monotonic() - sent)

    def _transfer(self, link: Link, control: ReplicaControl, version: str) -> None:
        control.set_version(INCOMPLETE)
        if self._backend == "nccl":  # which does not tell the label
            self._in_time("transfer", link.send_weights)
            control.set_version(version)
        else:
            link.send_weights(weight_version=version)

    def _connected(self, replica: Replica, control: ReplicaControl) -> Link:
        known = self._connections.get(replica.name)
        if known is not None and known.replica == replica:
            return known.link
        self._drop(replica.name)
        n_workers = control.n_workers()

        def connect() -> Link:
            return self._connect(replica.url, n_workers, lambda: self._weights)

        link = self._in_time("connection", connect) if self._backend == "nccl" else connect()
        self._connections[replica.name] = Connection(replica, link)
        return link

    def _in_time(self, what: str, work: Callable[[], T]) -> T:
        """What `work` gives, in a thread that is left alone when it takes too long."""
        found: Future[T] = Future()

        def run() -> None:
            try:
                self._prepare()
                found.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                found.set_exception(error)

        threading.Thread(target=run, name=f"weights-{what}", daemon=True).start()
        try:
            return found.result(self._stuck_after_s)
        except TimeoutError as error:
            if found.done():  # an error of the work's own
                raise
            raise _StuckError(f"the {what} over NCCL has not ended in {self._stuck_after_s:g} s") from error

    def _drop(self, name: str) -> None:
        known = self._connections.pop(name, None)
        if known is not None:
            with suppress(Exception):  # broken already
                known.link.shutdown()


def vllm_sender(*, backend: Backend, device: "torch.device", address: str = LOOPBACK) -> Sender:
    """To real ones; vLLM is imported at the first."""

    def connect(url: str, n_workers: int, weights: Weights) -> Link:
        from paddock.training.grpo.vllm_link import connect_vllm

        return connect_vllm(url, weights, backend=backend, device=device, address=address, n_workers=n_workers)

    def prepare() -> None:
        import torch

        if device.type == "cuda":
            torch.cuda.set_device(device)

    return Sender(connect, backend=backend, prepare=prepare)


class _StuckError(Exception):
    """What can't be waited for any longer, nor taken back."""


def _told(error: BaseException) -> str:
    """With what came before it: a resume that fails hides why."""
    text = f"{type(error).__name__}: {error}"
    return text if error.__context__ is None else f"{_told(error.__context__)}; then {text}"
