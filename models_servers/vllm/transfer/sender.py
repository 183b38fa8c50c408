"""The trainer's side: it announces an update to vLLM over HTTP, and broadcasts the weights to its workers.

Use     one sender for each vLLM: `WeightTransferTrainerFactory.trainer_init(init, client=, source=)`, then for each
        update `/pause?mode=keep`, `send_weights(weight_version="7")`, `/resume`. `init` is any `TrainerInitInfo` with
        `backend = "gloo"` and the fields of `GlooInit`.
Ranks   called on every rank of the trainer; rank 0 sends, the others only take part in gathering what is sent.
Law     no wait is longer than vLLM's own failure: a vLLM that refuses, or is dead, is an error at once. After an error
        the connection is closed, so that workers do not wait either. What was half loaded can't be sampled from: vLLM
        has to stay paused until all was sent again, by this trainer or the next one, after a new `trainer_init`.
Errors  those of the client (a vLLM that refuses), of `group`; ValueError where `source` is not what it declared.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, ClassVar, Self

import torch
from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine

from paddock.models_servers.vllm.transfer import BACKEND
from paddock.models_servers.vllm.transfer.group import TIMEOUT_S, arrival_keys, broadcast, make_group, open_store

POLL_S = 0.002


@dataclass
class GlooInit(TrainerInitInfo):  # type: ignore[misc]
    """How a trainer is reached by the workers of one vLLM."""

    backend: ClassVar[str] = BACKEND

    master_address: str
    """The trainer's own address, on which it listens; 127.0.0.1 unless vLLM is on another machine."""
    master_port: int
    """0: any free one."""
    world_size: int
    """1 and the number of that vLLM's workers."""


class GlooSender(TrainerWeightTransferEngine[GlooInit]):  # type: ignore[misc]
    """Sends weights to one vLLM; made by `trainer_init`."""

    init_info_cls = GlooInit
    _group: Any = None
    _store: Any = None
    _workers: range = range(0)
    _number = 0
    """How many updates were sent."""

    @classmethod
    def trainer_init(cls, init_info: GlooInit, *, client: Any, source: Any = None) -> Self:
        """A sender that is connected with the workers."""
        if source is None:
            raise ValueError("gloo: needs a WeightSource")
        sender = cls(client=client, source=source, is_sender=init_info.is_sender)
        if sender.is_sender:
            try:
                sender._connect(init_info)
            except BaseException:
                sender.shutdown()
                raise
        return sender

    def send_weights(self, weight_version: str | None = None) -> None:
        """Send all of the source's weights; they are loaded when this returns. `weight_version` is their label; None:
        the label stays."""
        declared = self.source.metadata()
        if not self.is_sender:
            for _ in self.source:
                pass
            return
        if self._group is None:
            raise RuntimeError("gloo: the connection with vLLM is closed: call trainer_init again")
        try:
            self._start()
            self._send(declared)
            self.client.finish_weight_update(weight_version)
        except BaseException:
            self.shutdown()
            raise

    def shutdown(self) -> None:
        """Close the connection; vLLM goes on with the weights that it has."""
        if self._group is not None:
            self._group.abort()
        self._group = self._store = None

    def _connect(self, init: GlooInit) -> None:
        self._workers = range(1, init.world_size)
        self._store, port = open_store(init.master_address, init.master_port)
        init_info = {
            "master_address": init.master_address,
            "master_port": port,
            "rank_offset": 1,
            "world_size": init.world_size,
        }
        call = _in_thread(lambda: self.client.init_weight_transfer_engine(init_info))
        self._await_workers(0, call)
        self._group = make_group(self._store, 0, init.world_size, init.master_address)
        call.result(TIMEOUT_S)

    def _start(self) -> None:
        try:
            self.client.start_weight_update()
        except Exception:
            if self._number:
                raise
            # A trainer before this one may have died in the middle of its update, which vLLM still counts as begun.
            self.client.finish_weight_update()
            self.client.start_weight_update()

    def _send(self, declared: list[Any]) -> None:
        self._number += 1
        update = {
            "number": self._number,
            "names": [info.name for info in declared],
            "dtype_names": [str(info.dtype).removeprefix("torch.") for info in declared],
            "shapes": [list(info.shape) for info in declared],
        }
        call = _in_thread(lambda: self.client.update_weights(update))
        self._await_workers(self._number, call)
        for tensor in _as_declared(self.source, declared):
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


def _as_declared(source: Any, declared: list[Any]) -> Iterator[torch.Tensor]:
    """The source's tensors; the workers wait for exactly what was declared."""
    tensors = iter(source)
    for info in declared:
        name, tensor = next(tensors, (None, None))
        if tensor is None or (name, tensor.dtype, tuple(tensor.shape)) != (info.name, info.dtype, tuple(info.shape)):
            got = "nothing" if tensor is None else f"{name} {tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"gloo: {info.name} {info.dtype} {tuple(info.shape)} was declared, {got} came")
        yield tensor
    if (further := next(tensors, None)) is not None:
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
