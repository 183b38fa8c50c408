"""A plugin of vLLM: weights are sent to a running vLLM over gloo, under the backend name `gloo`.

Source  vLLM's entry point group `vllm.general_plugins`: `register` runs in each process of every vLLM in the
        environment, and in a trainer that calls `vllm.plugins.load_general_plugins`.
Law     it only names classes; they are imported where `weight_transfer_config.backend` or a trainer's
        `init_info.backend` is `gloo`. Again, beside another plugin of that name, or in a vLLM without weight transfer:
        nothing happens.
"""

from contextlib import suppress
from importlib import import_module

BACKEND = "gloo"


def register() -> None:
    """Name the two sides to vLLM's factories."""
    try:
        factory = import_module("vllm.distributed.weight_transfer.factory")
        sides = (
            (factory.WeightTransferEngineFactory, "receiver", "GlooReceiver"),
            (factory.WeightTransferTrainerFactory, "sender", "GlooSender"),
        )
    except (ImportError, AttributeError):
        return
    for side, module, name in sides:
        with suppress(ValueError):  # the name is taken
            side.register_engine(BACKEND, f"{__name__}.{module}", name)
