"""A plugin of vLLM: weights are sent to running vLLMs, as backend `gloo` or `paddock_nccl`.

Source  vLLM's entry point group `vllm.general_plugins`: `register` runs in each process of every vLLM in the
        environment, and in a trainer that calls `vllm.plugins.load_general_plugins`.
Way     with `gloo` weights come by memory that trainer and workers share, where all can read it, else over gloo.
Law     it only names classes; they are imported where `weight_transfer_config.backend` or a trainer's
        `init_info.backend` is one of the names. Again, beside another plugin of that name, or in a vLLM without weight
        transfer: nothing happens. vLLM's own `nccl` takes all weights in one call that can't be ended.
"""

from contextlib import suppress
from importlib import import_module

GLOO, NCCL = "gloo", "paddock_nccl"


def register() -> None:
    """Name the sides to vLLM's factories: one that receives over either, and one that sends over gloo."""
    try:
        factory = import_module("vllm.distributed.weight_transfer.factory")
        receivers, senders = factory.WeightTransferEngineFactory, factory.WeightTransferTrainerFactory
    except (ImportError, AttributeError):
        return
    for side, backend, module, name in (
        (receivers, GLOO, "receiver", "TransferReceiver"),
        (receivers, NCCL, "receiver", "TransferReceiver"),
        (senders, GLOO, "sender", "GlooSender"),
    ):
        with suppress(ValueError):  # the name is taken
            side.register_engine(backend, f"{__name__}.{module}", name)
