"""A trainer's connection with the workers of one vLLM over gloo: it announces an update, and broadcasts the weights.

Law     no wait is longer than vLLM's own failure: a vLLM that refuses, or is dead, is an error at once. After an error
        the connection is closed, so that workers do not wait either. What was half loaded can't be sampled from: vLLM
        has to stay paused until all was sent again, by this trainer or the next one, over a new connection.
Source  the side of vLLM is `models_servers/vllm/transfer`, a plugin of vLLM; the trainer's needs torch alone.
Errors  those of the client (a vLLM that refuses), of `gloo_group`; ValueError where the tensors are not those declared.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Any, NamedTuple, Protocol, Self

import torch

from paddock.server.vllm.weights.control import ReplicaControl
from paddock.server.vllm.weights.gloo_group import TIMEOUT_S, arrival_keys, broadcast, make_group, open_store
from paddock.server.vllm.weights.replicas import ReplicaInfo, WeightsSource

POLL_S = 0.002


class TensorForm(NamedTuple):
    """What is declared of a tensor before it is sent."""

    name: str
    """In the checkpoint's format."""
    dtype: torch.dtype
    shape: tuple[int, ...]


class UpdateClient(Protocol):
    """The calls of vLLM around an update; each returns when vLLM has answered."""

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None: ...

    def start_weight_update(self) -> None: ...

    def update_weights(self, update_info: dict[str, Any]) -> None: ...

    def finish_weight_update(self, weight_version: str | None = None) -> None: ...


class GlooLink:
    """Connected with the workers of one vLLM; made by `connect`."""

    def __init__(self, client: UpdateClient) -> None:
        self._client = client
        self._group: Any = None
        self._store: Any = None
        self._workers = range(0)
        self._number = 0
        """How many updates were sent."""

    @classmethod
    def connect(cls, client: UpdateClient, address: str, port: int, world_size: int) -> Self:
        """Wait for the workers on `address`. `port` 0: any free one. `world_size`: 1 and the number of workers."""
        link = cls(client)
        try:
            link._meet(address, port, world_size)
        except BaseException:
            link.close()
            raise
        return link

    def send(
        self, declared: Sequence[TensorForm], tensors: Iterable[tuple[str, torch.Tensor]], version: str | None
    ) -> None:
        """Send all tensors; they are loaded when this returns. `version` is their label; None: the label stays."""
        if self._group is None:
            raise RuntimeError("gloo: the connection with vLLM is closed: connect again")
        try:
            self._start()
            self._send(declared, tensors)
            self._client.finish_weight_update(version)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; vLLM goes on with the weights that it has."""
        if self._group is not None:
            self._group.abort()
        self._group = self._store = None

    def _meet(self, address: str, port: int, world_size: int) -> None:
        self._workers = range(1, world_size)
        self._store, port = open_store(address, port)
        init_info = {"master_address": address, "master_port": port, "rank_offset": 1, "world_size": world_size}
        call = _in_thread(lambda: self._client.init_weight_transfer_engine(init_info))
        self._await_workers(0, call)
        self._group = make_group(self._store, 0, world_size, address)
        call.result(TIMEOUT_S)

    def _start(self) -> None:
        try:
            self._client.start_weight_update()
        except Exception:
            if self._number:
                raise
            # A trainer before this one may have died in the middle of its update, which vLLM still counts as begun.
            self._client.finish_weight_update()
            self._client.start_weight_update()

    def _send(self, declared: Sequence[TensorForm], tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._number += 1
        update = {
            "number": self._number,
            "names": [form.name for form in declared],
            "dtype_names": [str(form.dtype).removeprefix("torch.") for form in declared],
            "shapes": [list(form.shape) for form in declared],
        }
        call = _in_thread(lambda: self._client.update_weights(update))
        self._await_workers(self._number, call)
        for tensor in _as_declared(tensors, declared):
            broadcast(self._group, tensor.detach().to("cpu").contiguous())
        call.result(TIMEOUT_S)

    def _await_workers(self, number: int, call: "Future[None]") -> None:
        keys, deadline = arrival_keys(number, self._workers), time.monotonic() + TIMEOUT_S
        while not self._store.check(keys):
            if call.done():
                call.result()
                raise RuntimeError(f"gloo: vLLM has not {len(keys)} workers: check world_size")
            if time.monotonic() > deadline:
                raise TimeoutError(f"gloo: not all of {len(keys)} workers of vLLM came within {TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)


class GlooReplicaLink:
    """The connection with one replica, over its own routes; sends what the source gives each time."""

    def __init__(self, replica: ReplicaInfo, weights: WeightsSource, *, address: str, n_workers: int) -> None:
        self._weights = weights
        self._link = GlooLink.connect(ReplicaControl(replica.url, replica.token), address, 0, 1 + n_workers)

    def send_weights(self, weight_version: str | None = None) -> None:
        weights = self._weights()
        declared = [TensorForm(name, value.dtype, tuple(value.shape)) for name, value in weights.items()]
        self._link.send(declared, weights.items(), weight_version)

    def shutdown(self) -> None:
        self._link.close()


def _as_declared(tensors: Iterable[tuple[str, torch.Tensor]], declared: Sequence[TensorForm]) -> Iterator[torch.Tensor]:
    """The tensors; the workers wait for exactly what was declared."""
    given = iter(tensors)
    nothing: tuple[str, torch.Tensor | None] = ("", None)
    for form in declared:
        name, tensor = next(given, nothing)
        if tensor is None or TensorForm(name, tensor.dtype, tuple(tensor.shape)) != form:
            got = "nothing" if tensor is None else f"{name} {tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"gloo: {form.name} {form.dtype} {tuple(form.shape)} was declared, {got} came")
        yield tensor
    if (further := next(given, None)) is not None:
        raise ValueError(f"gloo: {further[0]} came and was not declared")


def _in_thread(work: Callable[[], None]) -> "Future[None]":
    """A daemon's, so that a vLLM which never answers does not keep the trainer from ending."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            future.set_exception(error)
        else:
            future.set_result(None)

    Thread(target=run, name="vllm-update", daemon=True).start()
    return future
