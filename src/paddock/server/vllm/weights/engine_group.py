"""A trainer's side of a transfer: one group with the workers of all engines, to whom each bucket goes once.

Law     the next bucket is filled while the last one is sent. A bucket that is not through `timeout_s` after it was
        begun, an engine whose call ends before all was sent, and a broken connection end the group: what was begun is
        aborted on all ranks, and whoever does not leave within `LEAVING_S` is to blame. Then the group is closed.
        What an engine was half sent is no version of the weights, until all was sent again, by this trainer or the next
        one, over a new group. An engine that says it has them without that is to blame, and is not labelled.
Way     by memory that all share where all workers can read the trainer's (`shared_memory`), else over gloo; between
        GPUs over NCCL.
Memory  two buckets, kept on a CPU until the group is closed; a copy of what comes from elsewhere is its source's.
Source  the side of vLLM is `models_servers/vllm/transfer`, a plugin of vLLM. vLLM's own endpoints take a rank for their
        first worker (`rank_offset`, vLLM 0.32, `distributed/weight_transfer/nccl_common.py`): so all are in one group.
Errors  BrokenGroupError; InfraError `transfer_stuck`, not retryable: all workers have come, and the communicator is not
        made, which NCCL can't take back. What the tensors' source raises ends the group, and is raised. An engine that
        has received all and does not load it is in what `send` returns.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Self

import torch

from paddock.errors import InfraError
from paddock.server.vllm.weights.buckets import Bucket, as_header, pack
from paddock.server.vllm.weights.collectives import (
    SHARED,
    Collective,
    CollectivePlace,
    IsThrough,
    MakeCollective,
    Transport,
    make_collective,
)
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.shared_memory import CPU, ReadTrial, read_trial
from paddock.server.vllm.weights.store import (
    COMPLETE,
    ENDED,
    arrival_keys,
    bucket_key,
    left_keys,
    open_store,
    poll,
)
from paddock.server.vllm.weights.threads import in_thread
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferTarget
from paddock.types import JsonObject

LEAVING_S = 10.0
"""How long those that live may take to leave a broken group, in which a bucket is loaded; less, where a bucket has less
time."""
_log = logging.getLogger(__name__)
Tensors = Iterable[tuple[str, torch.Tensor]]
Calls = Mapping[str, "Future[None]"]
"""One call of each engine, by its name."""


class EngineGroup:
    """Connected with the workers of some engines; made by `connect`."""

    def __init__(self, engines: Sequence[TransferTarget], settings: WeightsSettings) -> None:
        self._engines = engines
        self._settings = settings
        self._store: Any = None
        self._collective: Collective | None = None
        self._number = 0
        """How many updates were begun."""
        self._all_sent = False
        """In the last one."""
        ends = list(accumulate((engine.n_workers for engine in engines), initial=1))
        self._ranks = {engine.name: range(*ends[nth : nth + 2]) for nth, engine in enumerate(engines)}
        self._world_size = ends[-1]

    @classmethod
    def connect(
        cls,
        engines: Sequence[TransferTarget],
        settings: WeightsSettings,
        *,
        address: str,
        port: int = 0,
        transport: Transport = "memory",
        device: torch.device = CPU,
        make: MakeCollective = make_collective,
    ) -> Self:
        """Wait for all workers on `address`. `port` 0: any free one. `device`: this process's GPU, for NCCL and
        cuda_ipc."""
        group = cls(engines, settings)
        group._store, port = open_store(address, port, settings.timeout_s)
        info = {"master_address": address, "master_port": port, "world_size": group._world_size}
        place = CollectivePlace(0, group._world_size, address, device, settings.timeout_s)
        with _trial_of(transport, device) as trial:
            info |= {"timeout_s": settings.timeout_s, "trial": trial and trial.model_dump()}
            calls = group._call_all(lambda engine: group._join(engine, info))
            try:
                group._await_workers(0, calls)
                transport = group._agreed(transport, trial)
                group._store.set(COMPLETE, transport)
                group._collective = _made_in_time(partial(make, transport, group._store, place), settings.timeout_s)
                group._await_calls(calls)
                if failed := _errors(calls):
                    raise _TransferError from next(iter(failed.values()))
            except InfraError:
                raise
            except Exception as error:
                raise group._end(error, calls) from error
        return group

    def send(self, tensors: Tensors, version: str | None) -> dict[str, BaseException]:
        """Send all tensors; returns when they are loaded, with what kept engines from it. `version` is their label;
        None: the label stays."""
        self._raise_closed()
        self._number, self._all_sent = self._number + 1, False
        calls = self._call_all(lambda engine: self._update(engine, version))
        try:
            self._await_workers(self._number, calls)
            self._send_buckets(tensors, calls)
            self._await_calls(calls)
        except _TransferError as error:
            raise self._end(error, calls) from error
        except BaseException as error:
            self._end(error, calls)
            raise
        failed = _errors(calls)
        if failed:
            self.close()
        return failed

    def close(self) -> None:
        """Close the group; engines go on with the weights that they have."""
        if self._collective is not None:
            self._collective.abort()
            self._collective.free()
        self._collective = self._store = None

    def _call_all(self, call: Callable[[TransferTarget], None]) -> Calls:
        return {engine.name: in_thread(partial(call, engine)) for engine in self._engines}

    def _join(self, engine: TransferTarget, info: JsonObject) -> None:
        ranks = self._ranks[engine.name]
        engine.client.init_weight_transfer_engine({**info, "rank_offset": ranks.start})
        if not self._store.check(arrival_keys(0, ranks)):
            raise RuntimeError(f"it has answered, and not all of its {len(ranks)} workers have come")

    def _agreed(self, transport: Transport, trial: ReadTrial | None) -> Transport:
        """What all workers can receive by, as they said when they came."""
        if transport not in SHARED or trial is None:
            return "gloo" if transport in SHARED else transport
        for name, ranks in self._ranks.items():
            for key in arrival_keys(0, ranks):
                if problem := self._store.get(key).decode():
                    _log.log(_level(transport), "weights go over gloo, for %s shares no memory: %s", name, problem)
                    return "gloo"
        return transport

    def _update(self, engine: TransferTarget, version: str | None) -> None:
        """Raises where the engine has ended the update before all had come, after which it takes another one. Where the
        group has ended meanwhile no further call is made, which would be one of another update."""
        client, store = engine.client, self._store
        try:
            client.start_weight_update()
        except Exception:
            if self._number > 1:
                raise
            # A trainer before this one may have died in the middle of its update, which vLLM still counts as begun.
            client.finish_weight_update()
            client.start_weight_update()
        self._raise_closed()
        client.update_weights({"number": self._number})
        if any(_left(store, self._ranks[engine.name])):
            client.finish_weight_update()
            raise RuntimeError("the rest of the update did not come to it")
        self._raise_closed()
        if not self._all_sent:
            raise RuntimeError("it has ended the update before all was sent")
        client.finish_weight_update(version)

    def _await_workers(self, number: int, calls: Calls) -> None:
        keys = arrival_keys(number, range(1, self._world_size))
        deadline = time.monotonic() + self._settings.timeout_s

        def check() -> None:
            _raise_failed(calls)
            self._raise_late(deadline, f"not all of {len(keys)} workers of the engines came")

        with _transfer_errors():
            poll(lambda: self._store.check(keys), check)

    def _send_buckets(self, tensors: Tensors, calls: Calls) -> None:
        assert self._collective is not None  # `send` looks
        sent = _PendingBucket(lambda: True, 0.0)
        nth = -1
        for nth, bucket in enumerate(pack(tensors, self._settings.bucket_bytes, self._collective.buffer)):
            self._finish_bucket(sent, calls)
            sent = self._begin_bucket(nth, bucket)
        self._finish_bucket(sent, calls)
        if self._collective.device.type != "cpu":  # whose new pages cost more than what is copied to them
            self._collective.free()
        self._all_sent = True
        with _transfer_errors():
            self._store.set(bucket_key(self._number, nth + 1), as_header([]))

    def _begin_bucket(self, nth: int, bucket: Bucket) -> "_PendingBucket":
        assert self._collective is not None  # `send` looks
        deadline = time.monotonic() + self._settings.timeout_s
        with _transfer_errors():
            self._store.set(bucket_key(self._number, nth), as_header(bucket.forms))
            return _PendingBucket(
                self._collective.broadcast(bucket.data) if len(bucket.data) else lambda: True, deadline
            )

    def _finish_bucket(self, sent: "_PendingBucket", calls: Calls) -> None:
        def check() -> None:
            _raise_failed(calls)
            self._raise_late(sent.deadline, "a bucket was not through")

        with _transfer_errors():
            poll(sent.is_through, check)

    def _await_calls(self, calls: Calls) -> None:
        late = wait(calls.values(), self._settings.timeout_s).not_done
        names = [name for name, call in calls.items() if call in late]
        if names:
            raise _TransferError from TimeoutError(
                f"{', '.join(names)} did not end it within {self._settings.timeout_s:g} s"
            )

    def _raise_closed(self) -> None:
        if self._collective is None:
            raise RuntimeError("the group of the trainer and the engines is closed: connect again")

    def _raise_late(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} within {self._settings.timeout_s:g} s")

    def _end(self, error: BaseException, calls: Calls) -> BrokenGroupError:
        """End the group for all, and find out who is to blame."""
        cause = (error.__cause__ or error) if isinstance(error, _TransferError) else error
        self._store.set(ENDED, "")
        collective, self._collective = self._collective, None
        if collective is not None:
            collective.abort()
        leaving_s = min(LEAVING_S, self._settings.timeout_s)
        deadline = time.monotonic() + leaving_s
        blamed: dict[str, BaseException] = {}
        updated: set[str] = set()
        for name, call in calls.items():
            wait([call], max(0.0, deadline - time.monotonic()))
            if not call.done():
                blamed[name] = TimeoutError(f"did not answer for {leaving_s:g} s after the transfer had ended: {cause}")
            elif (own := call.exception()) is None:
                updated |= {name} if self._number else set()
            elif not all(left := _left(self._store, self._ranks[name])):
                blamed[name] = TimeoutError(f"only some of its workers live: {cause}") if any(left) else own
        if collective is not None:
            collective.free()
        self.close()
        return BrokenGroupError(cause, blamed, frozenset(updated))


def _left(store: Any, ranks: Iterable[int]) -> list[bool]:
    """Whether each of these workers has left the group."""
    return [bool(store.check([key])) for key in left_keys(ranks)]


class _PendingBucket(NamedTuple):
    """A bucket on its way."""

    is_through: IsThrough
    deadline: float


class _TransferError(Exception):
    """Raised from what went wrong between trainer and engines, apart from what goes wrong in the trainer."""


@contextmanager
def _transfer_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _TransferError from error


@contextmanager
def _trial_of(transport: Transport, device: torch.device) -> Iterator[ReadTrial | None]:
    """A trial of memory that may be shared; None: there is none."""
    with ExitStack() as stack:
        trial = None
        if transport in SHARED:
            try:
                trial = stack.enter_context(read_trial(CPU if transport == "memory" else device))
            except (OSError, RuntimeError) as error:
                _log.log(_level(transport), "weights go over gloo, for no memory can be shared here: %s", error)
        yield trial


def _level(transport: Transport) -> int:
    """On one GPU it is to be fast, and is not; on the CPU engines may be on other machines."""
    return logging.WARNING if transport == "cuda_ipc" else logging.INFO


def _made_in_time(make: Callable[[], Collective], timeout_s: float) -> Collective:
    call = in_thread(make)
    if wait([call], timeout_s + LEAVING_S).not_done:
        raise InfraError(
            f"the workers of all engines came, and could not be connected in {timeout_s + LEAVING_S:g} s",
            kind="transfer_stuck",
            retryable=False,
        )
    return call.result()


def _errors(calls: Calls) -> dict[str, BaseException]:
    errors = ((name, call.exception()) for name, call in calls.items())
    return {name: error for name, error in errors if error is not None}


def _raise_failed(calls: Calls) -> None:
    for call in calls.values():
        if call.done():
            call.result()
