"""Weights to the engines that sample: to each vLLM in turn, through its own interface for weight transfer.

Replica check its health; connect, where it is not connected (a restarted replica is not); pause, keeping its requests;
        send; resume, in any case. A replica that is dead or refuses is left out and named, and the others get theirs.
Broken  an update that fails half-way, or whose trainer dies, leaves unknown weights.
        Therefore the engine's label is `INCOMPLETE` before the first byte is sent, and the version's number after the
        last: what is sampled between is masked as of unknown weights. The next sending connects anew. It is resumed
        all the same: paused it would look well, and keep its rollouts waiting for ever.
Shared  an engine on the trainer's own GPU sleeps while it trains (`sleep_engines`), and is sent weights from memory of
        the CPU: it takes memory for weights, gets them, and takes memory for its cache when the trainer has left.
Rank    rank 0 of the trainer alone sends; weights of a sharded model are gathered before. It listens on `address`, on a
        free port for each replica. Over `gloo` between CPUs (a plugin of vLLM that registers itself), `nccl` between
        GPUs.
Stuck   NCCL has no deadline of its own, and vLLM's sender no way to take back what it began: a replica that dies
        meanwhile leaves the thread waiting and its kernel on the GPU, where training would wait behind it. So with NCCL
        a connection and a transfer have a thread each, and one that has not ended after `STUCK_AFTER_S` ends the run,
        which goes on from its checkpoint, in place of blocking it for `paddock.policy_timeout_s`.
Units   seconds. Every wait ends: HTTP calls after their deadlines (`control`), broadcasts over gloo after the
        transfer's own (two minutes), NCCL's as above.
Errors  InfraError `transfer_stuck`, not retryable. None else of a replica: see `SendResult.failed`. An environment
        without vLLM is an ImportError.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from paddock.errors import InfraError
from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult, WeightsSource

if TYPE_CHECKING:
    import torch

_log = logging.getLogger(__name__)
Backend = Literal["gloo", "nccl"]
T = TypeVar("T")
STUCK_AFTER_S = 240.0
"""Limit for one connection or transfer over NCCL; longer than vLLM's client waits for its end of it."""
INCOMPLETE = "incomplete"
"""Label of an engine during an update; no version has that name."""
LOOPBACK = "127.0.0.1"


class TransferLink(Protocol):
    """One connection to an engine: vLLM's `TrainerWeightTransferEngine`."""

    def send_weights(self, weight_version: str | None = None) -> None: ...

    def shutdown(self) -> None: ...


class ReplicaConnection(NamedTuple):
    replica: ReplicaInfo
    link: TransferLink


class SendTimes(NamedTuple):
    """How long the update of one replica took."""

    pause_s: float
    send_s: float
    resume_s: float


Connect = Callable[[ReplicaInfo, int, WeightsSource], TransferLink]
"""Connects to a vLLM, which has so many workers, to send it what the source gives each time."""


class WeightSender:
    """Sends weights to replicas, and holds the connections to them."""

    def __init__(
        self,
        connect: Connect,
        *,
        backend: Backend,
        control: Callable[[str, str | None], ReplicaControl] = ReplicaControl,
        prepare: Callable[[], None] = lambda: None,
        stuck_after_s: float = STUCK_AFTER_S,
        colocated: bool = False,
    ):
        """`prepare`: called first in each thread of a connection or transfer. `colocated`: engines have the trainer's
        GPU."""
        self._colocated = colocated
        self._connect = connect
        self._backend = backend
        self._control = control
        self._prepare = prepare
        self._stuck_after_s = stuck_after_s
        self._connections: dict[str, ReplicaConnection] = {}
        self._weights: Mapping[str, torch.Tensor] = {}

    def send(
        self, version: int, weights: Mapping[str, "torch.Tensor"], replicas: Sequence[ReplicaInfo], *, clear_cache: bool
    ) -> SendResult:
        self._weights = weights
        try:
            return self._send(version, replicas, clear_cache=clear_cache)
        finally:
            self._weights = {}

    def _send(self, version: int, replicas: Sequence[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        times: list[SendTimes] = []
        failed: dict[str, str] = {}
        for replica in replicas:
            try:
                times.append(self._send_to(replica, str(version), clear_cache=clear_cache))
            except _StuckError as error:
                self._connections.pop(replica.name, None)  # nobody can shut it down any more
                raise InfraError(f"{replica.name}: {error}", kind="transfer_stuck", retryable=False) from error
            except Exception as error:  # noqa: BLE001 - of one replica, whatever it is; the others go on
                failed[replica.name] = _error_chain(error)
                self._drop(replica.name)
        for name in self._connections.keys() - {replica.name for replica in replicas}:
            self._drop(name)
        return SendResult(
            version=version,
            replicas=tuple(replica.name for replica in replicas if replica.name not in failed),
            pause_s=sum(replica_times.pause_s for replica_times in times),
            send_s=sum(replica_times.send_s for replica_times in times),
            resume_s=sum(replica_times.resume_s for replica_times in times),
            failed=failed,
        )

    def sleep_engines(self) -> None:
        """Let the engines sleep that weights were sent to; one that is dead holds no memory. InfraError
        `engine_awake`, where one is alive and does not."""
        for name, connection in self._connections.items():
            control = self._control(connection.replica.url, connection.replica.token)
            try:
                control.check_health()
            except InfraError as error:
                _log.warning("%s does not answer, and is not put to sleep: %s", name, error.message)
                continue
            try:
                control.sleep()
            except InfraError as error:
                raise InfraError(
                    f"{name} has not given its memory back, which training needs: {error.message}", kind="engine_awake"
                ) from error

    def close(self) -> None:
        """End all connections, so that another trainer may connect."""
        for name, connection in list(self._connections.items()):
            self._drop(name)
            with suppress(InfraError):  # it may be gone as well, and whoever connects next takes our place anyway
                self._control(connection.replica.url, connection.replica.token).forget_trainer()

    def _send_to(self, replica: ReplicaInfo, version: str, *, clear_cache: bool) -> SendTimes:
        control = self._control(replica.url, replica.token)
        control.check_health()
        link = self._link_to(replica, control)
        began = time.monotonic()
        try:
            self._pause(control, clear_cache=clear_cache)
            paused = time.monotonic()
            self._transfer(link, control, version)
            sent = time.monotonic()
        finally:
            if self._colocated:
                control.wake_up()
            control.resume()
        return SendTimes(paused - began, sent - paused, time.monotonic() - sent)

    def _pause(self, control: ReplicaControl, *, clear_cache: bool) -> None:
        if self._colocated:
            control.sleep()
            control.wake_up("weights")
        else:
            control.pause(clear_cache=clear_cache)

    def _transfer(self, link: TransferLink, control: ReplicaControl, version: str) -> None:
        control.set_version(INCOMPLETE)
        if self._backend == "nccl":  # which does not tell the label
            self._run_with_limit("transfer", link.send_weights)
            control.set_version(version)
        else:
            link.send_weights(weight_version=version)

    def _link_to(self, replica: ReplicaInfo, control: ReplicaControl) -> TransferLink:
        connection = self._connections.get(replica.name)
        if connection is not None and connection.replica == replica:
            return connection.link
        self._drop(replica.name)
        n_workers = control.n_workers()

        def connect() -> TransferLink:
            return self._connect(replica, n_workers, lambda: self._weights)

        link = self._run_with_limit("connection", connect) if self._backend == "nccl" else connect()
        self._connections[replica.name] = ReplicaConnection(replica, link)
        return link

    def _run_with_limit(self, what: str, work: Callable[[], T]) -> T:
        """The result of `work`, run in a thread that is abandoned when it takes too long (`_StuckError`)."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                self._prepare()
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                future.set_exception(error)

        threading.Thread(target=run, name=f"weights-{what}", daemon=True).start()
        try:
            return future.result(self._stuck_after_s)
        except TimeoutError as error:
            if future.done():  # an error of the work's own
                raise
            raise _StuckError(f"the {what} over NCCL has not ended in {self._stuck_after_s:g} s") from error

    def _drop(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            with suppress(Exception):  # broken already
                connection.link.shutdown()


def vllm_sender(
    *, backend: Backend, device: "torch.device", address: str = LOOPBACK, colocated: bool = False
) -> WeightSender:
    """A sender to real vLLMs; vLLM is imported at the first connection."""

    def connect(replica: ReplicaInfo, n_workers: int, weights: WeightsSource) -> TransferLink:
        if backend == "gloo":
            from paddock.server.vllm.weights.gloo_link import GlooReplicaLink

            return GlooReplicaLink(replica, weights, address=address, n_workers=n_workers)
        from paddock.server.vllm.weights.nccl_link import connect_nccl

        return connect_nccl(replica, weights, device=device, address=address, n_workers=n_workers)

    def prepare() -> None:
        import torch

        if device.type == "cuda":
            torch.cuda.set_device(device)

    return WeightSender(connect, backend=backend, prepare=prepare, colocated=colocated)


class _StuckError(Exception):
    """A connection or transfer took too long, and can't be taken back."""


def _error_chain(error: BaseException) -> str:
    """The error with the one before it, which a failed resume would hide."""
    text = f"{type(error).__name__}: {error}"
    return text if error.__context__ is None else f"{_error_chain(error.__context__)}; then {text}"
