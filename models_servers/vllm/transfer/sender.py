"""The trainer's side as vLLM's own interface for it: for a trainer that has vLLM and knows nothing of us.

Use     one sender for each vLLM: `WeightTransferTrainerFactory.trainer_init(init, client=, source=)`, then for each
        update `/pause?mode=keep`, `send_weights(weight_version="7")`, `/resume`. `init` is any `TrainerInitInfo` with
        `backend = "gloo"` and the fields of `GlooInit`.
Ranks   called on every rank of the trainer; rank 0 sends, the others only take part in gathering what is sent.
Law     that of `paddock.server.vllm.weights.gloo_link`; so are the errors.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine

from paddock.models_servers.vllm.transfer import BACKEND
from paddock.server.vllm.weights.gloo_link import GlooLink, TensorForm


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
    _link: GlooLink | None = None

    @classmethod
    def trainer_init(cls, init_info: GlooInit, *, client: Any, source: Any = None) -> Self:
        """A sender that is connected with the workers."""
        if source is None:
            raise ValueError("gloo: needs a WeightSource")
        sender = cls(client=client, source=source, is_sender=init_info.is_sender)
        if sender.is_sender:
            sender._link = GlooLink.connect(
                client, init_info.master_address, init_info.master_port, init_info.world_size
            )
        return sender

    def send_weights(self, weight_version: str | None = None) -> None:
        """Send all of the source's weights; they are loaded when this returns. `weight_version` is their label; None:
        the label stays."""
        declared = [TensorForm(info.name, info.dtype, tuple(info.shape)) for info in self.source.metadata()]
        if self._link is None:
            for _ in self.source:
                pass
            return
        self._link.send(declared, self.source, weight_version)

    def shutdown(self) -> None:
        """Close the connection; vLLM goes on with the weights that it has."""
        if self._link is not None:
            self._link.close()
