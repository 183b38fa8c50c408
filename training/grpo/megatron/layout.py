"""How a model is spread over processes and computed: a `Conversion` makes its stages by it.

Source  the names are those of Megatron-core's `ModelParallelConfig` and `TransformerConfig`.
Law     `fields` is all that a conversion lays over its bridge's own settings of the architecture, so that both bridges
        make the same model: a bridge's defaults are those of pre-training (dropout, auxiliary losses, fused kernels).
        What is set for RL can be set otherwise by `more`; where TransformerEngine is missing no fused kernel can be.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

FOR_RL: Mapping[str, Any] = {
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "moe_aux_loss_coeff": 0.0,
    "moe_router_load_balancing_type": "none",
    "moe_token_dispatcher_type": "alltoall",
    "mtp_num_layers": None,
}
"""An engine samples without dropout; layers that predict further tokens would have no loss, and core asks for labels; a
loss for balance would change gradients unseen; the other dispatcher of tokens takes micro-batches of one length alone,
which even a model without experts is refused for."""
FUSED = (
    "apply_rope_fusion",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "gradient_accumulation_fusion",
    "masked_softmax_fusion",
    "moe_permute_fusion",
)
"""Fields that switch on kernels of TransformerEngine, Apex and CUDA."""


class ParallelLayout(NamedTuple):
    """The layout of one model."""

    tensor_model_parallel_size: int = 1
    pipeline_model_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_model_parallel_size: int = 1
    expert_tensor_parallel_size: int | None = None
    """None: the size of the other layers."""
    sequence_parallel: bool = False
    dtype: torch.dtype = torch.float32
    """The type of weights in the model and of what is computed with them."""
    more: Mapping[str, Any] = {}
    """Further fields of `TransformerConfig`."""

    def fields(self, *, fused: bool) -> dict[str, Any]:
        """Fields of `TransformerConfig`. `fused`: TransformerEngine is installed."""
        own = self._asdict()
        own.pop("dtype")
        more = own.pop("more")
        if own["expert_tensor_parallel_size"] is None:
            own["expert_tensor_parallel_size"] = self.tensor_model_parallel_size
        # Between stages: micro-batches are as long as their rows.
        own["variable_seq_lengths"] = self.pipeline_model_parallel_size > 1
        dtypes = {"params_dtype": self.dtype, "pipeline_dtype": self.dtype, "bf16": self.dtype == torch.bfloat16}
        plain = {} if fused else {**dict.fromkeys(FUSED, False), "moe_grouped_gemm": False}
        return {**own, **dtypes, "fp16": False, **FOR_RL, **more, **plain}
