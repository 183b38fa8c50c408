"""The trainer's side as vLLM's own interface for it: for a trainer that has vLLM and knows nothing of us.

Use     one sender for each vLLM: `WeightTransferTrainerFactory.trainer_init(init, client=, source=)`, then for each
        update `/pause?mode=keep`, `send_weights(weight_version="7")`, `/resume`. `init` is any `TrainerInitInfo` with
        `backend = "gloo"` and the fields of `GlooInit`.
Ranks   called on every rank of the trainer; rank 0 sends, the others only take part in gathering what is sent.
Law     that of `paddock.server.vllm.weights.engine_group`, for one engine. Errors are those of vLLM's client and
        of torch; ValueError where the source does not give what it declares.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine

from paddock.models_servers.vllm.transfer import GLOO
from paddock.server.vllm.weights.buckets import TensorForm
from paddock.server.vllm.weights.engine_group import EngineGroup
from paddock.server.vllm.weights.settings import WeightsSettings
from paddock.server.vllm.weights.transfer import BrokenGroupError, TransferTarget

ENGINE = "vllm"


@dataclass
class GlooInit(TrainerInitInfo):  # type: ignore[misc]
    """How a trainer is reached by the workers of one vLLM."""

    backend: ClassVar[str] = GLOO

    master_address: str
    """The trainer's own address, on which it listens; 127.0.0.1 unless vLLM is on another machine."""
    master_port: int
    """0: any free one."""
    world_size: int
    """1 and the number of that vLLM's workers."""


class GlooSender(TrainerWeightTransferEngine[GlooInit]):  # type: ignore[misc]
    """Sends weights to one vLLM; made by `trainer_init`."""

    init_info_cls = GlooInit
    _group: EngineGroup | None = None

    @classmethod
    def trainer_init(cls, init_info: GlooInit, *, client: Any, source: Any = None) -> Self:
        """A sender that is connected with the workers."""
        if source is None:
            raise ValueError("gloo: needs a WeightSource")
        sender = cls(client=client, source=source, is_sender=init_info.is_sender)
        if sender.is_sender:
            engine = TransferTarget(ENGINE, client, init_info.world_size - 1)
            address, port = init_info.master_address, init_info.master_port
            with _own_errors():
                sender._group = EngineGroup.connect([engine], WeightsSettings(), address=address, port=port)
        return sender

    def send_weights(self, weight_version: str | None = None) -> None:
        """Send all of the source's weights; they are loaded when this returns. `weight_version` is their label; None:
        the label stays."""
        if self._group is None:
            for _ in self.source:
                pass
            return
        with _own_errors():
            failed = self._group.send(self._as_declared(), weight_version)
        for error in failed.values():
            raise error

    def shutdown(self) -> None:
        """Close the connection; vLLM goes on with the weights that it has."""
        if self._group is not None:
            self._group.close()

    def _as_declared(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The source's tensors: vLLM has no other way to see that some are missing."""
        given = iter(self.source)
        for info in self.source.metadata():
            declared = TensorForm(info.name, str(info.dtype).removeprefix("torch."), tuple(info.shape))
            name, tensor = next(given, ("", None))
            if tensor is None:
                raise ValueError(f"gloo: {_text(declared)} was declared, nothing came")
            if (form := TensorForm.of(name, tensor)) != declared:
                raise ValueError(f"gloo: {_text(declared)} was declared, {_text(form)} came")
            yield name, tensor
        for name, _ in given:
            raise ValueError(f"gloo: {name} came and was not declared")


@contextmanager
def _own_errors() -> Iterator[None]:
    """Raise what the only engine is blamed for, as it is."""
    try:
        yield
    except BrokenGroupError as error:
        raise error.blamed.get(ENGINE, error.cause) from error


def _text(form: TensorForm) -> str:
    return f"{form.name} {form.dtype} {form.shape}"
