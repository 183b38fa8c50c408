"""The weights of all processes as one, on rank 0: to be sent, or written.

Law     a collective. Where parameters are gathered while the next forward pass runs, they are gathered before.
"""

import torch

from paddock.training.grpo.megatron.learner import MegatronLearner
from paddock.training.grpo.megatron.ranks import Ranks


def whole_weights(learner: MegatronLearner, ranks: Ranks, *, copy: bool = False) -> dict[str, torch.Tensor]:
    """The weights by their names in a checkpoint; empty on other ranks than 0. With several processes, or as a copy, in
    memory of the CPU."""
    for model in learner.models:
        if model.ddp_config.overlap_param_gather:
            model.start_param_sync(force_sync=True)
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in learner.conversion.export(learner.models):
        if ranks.first:
            weights[name] = tensor.detach() if ranks.alone and not copy else tensor.detach().to("cpu", copy=True)
    return weights
