"""The side of vLLM: each worker receives the weights and loads them into its model.

Law     an update replaces all weights layer by layer; between `start` and `finish` the model can't run, so vLLM has to
        be paused (`/pause?mode=keep`, whose default clears the KV cache: what was computed with the old weights is
        computed again at `/resume`).
CPU     three defects of vLLM 0.32 are made up for. The base's `update_weights` synchronises an accelerator, and raises
        where there is none. An output head that is tied to the embedding keeps a packed copy of it, made at load; it
        is packed again after each update, or logits would be those of the old embedding. Experts are packed when they
        are loaded first, and not after an update, whose weights would be read in a wrong order: so they are here.
Broken  an update that ends before its end, because the trainer died or a tensor could not be loaded, is undone at once:
        layers that wait for weights get back those that they had, or what is sampled when vLLM is resumed would end its
        engine. The next update's layers are not loaded from both. Where the group broke no error is raised: all workers
        would raise one, and vLLM's reply to the trainer leaves all but the first unread. The trainer knows it from the
        store, in which each says first that it has left.
Several a worker among others of one model that can't load a tensor ends its process, and so its vLLM, which starts
        anew: the others may have loaded all and wait for the end of the update, unable to run, and vLLM's own reply to
        the trainer leaves theirs unread, to be taken for those of later calls.
Errors  what loading raises, after all of the update was received: the trainer, which sends on, is not left hanging.
        RuntimeError: no trainer is connected.
"""

import logging
import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

from paddock.server.vllm.weights.collectives import CollectivePlace
from paddock.server.vllm.weights.shared_memory import ReadTrial
from paddock.server.vllm.weights.store import address_towards
from paddock.server.vllm.weights.worker_group import BrokenReceiveError, WorkerGroup

_log = logging.getLogger("vllm.paddock")  # vLLM shows what is below its own name
RELOAD = "vllm.model_executor.model_loader.reload"
EMBEDDING = "vllm.model_executor.layers.vocab_parallel_embedding"


@dataclass
class TransferInit(WeightTransferInitInfo):  # type: ignore[misc]
    """Where the trainer waits for workers, as its sender says."""

    master_address: str
    master_port: int
    rank_offset: int
    """Rank of this vLLM's first worker."""
    world_size: int
    """The trainer and all workers of all engines."""
    timeout_s: float
    """Longest that the workers may take to connect."""
    trial: dict[str, str] | None
    """A `ReadTrial` of memory that trainer and workers may share; None: they are to share none."""


@dataclass
class TransferUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]
    """What the trainer is about to send."""

    number: int
    """Counts the trainer's updates, from 1."""


class TransferReceiver(WeightTransferEngine[TransferInit, TransferUpdate]):  # type: ignore[misc]
    """Receives weights in one worker; vLLM makes it there."""

    init_info_cls = TransferInit
    update_info_cls = TransferUpdate
    _group: WorkerGroup | None = None
    _tied_heads: tuple[tuple[Any, Any], ...] = ()
    """Output heads of the model and the embeddings whose weights they share."""
    _is_updating = False
    """An update was started and is not finished."""
    _is_complete = False
    """All tensors of the update have come and were loaded."""

    def init_transfer_engine(self, init_info: TransferInit) -> None:
        self.shutdown()
        parallel = self.parallel_config
        rank = init_info.rank_offset + parallel.data_parallel_index * parallel.world_size + parallel.rank
        address, port = init_info.master_address, init_info.master_port
        own_address = address_towards(address, port)
        place = CollectivePlace(rank, init_info.world_size, own_address, self.device, init_info.timeout_s)
        trial = None if init_info.trial is None else ReadTrial.model_validate(init_info.trial)
        self._group = WorkerGroup.join(address, port, place, trial)

    def start_weight_update(self) -> None:
        self._is_updating, self._is_complete = True, False
        self._tied_heads = _tied_heads(self.model) if self.device.type == "cpu" else ()
        import_module(RELOAD).initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        try:
            self.receive_weights(self.parse_update_info(update_info))
        except Exception:
            if self._is_updating:
                self._undo()
            raise
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: TransferUpdate) -> None:
        if self._group is None:
            raise RuntimeError("no trainer is connected: it has to connect first")
        failure: Exception | None = None
        try:
            for tensors in self._group.receive(update_info.number):
                if failure is None:
                    failure = self._load(tensors)
        except BrokenReceiveError as error:
            _log.warning("an update of weights is undone: %s", error)
            if self._is_updating:
                self._undo()
            return
        if failure is not None:
            if self.parallel_config.world_size_across_dp > 1:
                _end_process(failure)
            raise failure
        self._is_complete = True

    def finish_weight_update(self) -> None:
        if not self._is_complete:
            self._undo()
            return
        self._is_updating = False
        import_module(RELOAD).finalize_layerwise_reload(self.model, self.model_config)
        for head, embedding in self._tied_heads:
            head.weight = embedding.weight
            head.quant_method.process_weights_after_loading(head)
        if self.device.type == "cpu":
            _pack_experts(self.model)

    def shutdown(self) -> None:
        if self._group is not None:
            self._group.close()
        self._group = None

    def _undo(self) -> None:
        """Layers that wait for weights get back those that they had, and forget what they were given."""
        info_of = import_module(f"{RELOAD}.layerwise").get_layerwise_info
        for layer in self.model.modules():
            info = info_of(layer)
            info.loaded_weights.clear()
            info.load_numel = 0
        import_module(RELOAD).finalize_layerwise_reload(self.model, self.model_config)
        self._is_updating = False

    def _load(self, tensors: list[tuple[str, torch.Tensor]]) -> Exception | None:
        try:
            self.model.load_weights((name, tensor.to(self.device)) for name, tensor in tensors)
        except Exception as error:  # noqa: BLE001 - raised when all was received
            return error
        return None


def _end_process(failure: Exception) -> NoReturn:
    _log.error("a tensor of new weights could not be loaded: this vLLM ends", exc_info=failure)
    logging.shutdown()
    os._exit(1)  # at once: what is tidied up at an end waits for the other workers


def _tied_heads(model: Any) -> tuple[tuple[Any, Any], ...]:
    module = import_module(EMBEDDING)
    heads, embeddings = [], []
    for layer in model.modules():
        if isinstance(layer, module.ParallelLMHead):
            heads.append(layer)
        elif isinstance(layer, module.VocabParallelEmbedding):
            embeddings.append(layer)
    return tuple(
        (head, embedding)
        for head in heads
        for embedding in embeddings
        if head.weight.data_ptr() == embedding.weight.data_ptr()
    )


def _pack_experts(model: Any) -> None:
    for layer in model.modules():
        kernel = getattr(getattr(layer, "quant_method", None), "moe_kernel", None)
        if kernel is not None and "w13_weight" in layer._parameters:
            kernel.fused_experts.process_weights_after_loading(layer)
