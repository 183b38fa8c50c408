"""The weights of all processes as one, on rank 0: to be sent, a tensor at a time, or written.

Law     a collective. Where parameters are gathered while the next forward pass runs, they are gathered before.
"""

from collections.abc import Iterator

import torch

from paddock.training.grpo.megatron.learner import MegatronLearner
from paddock.training.grpo.megatron.ranks import Ranks


def each_weight(learner: MegatronLearner, ranks: Ranks) -> Iterator[tuple[str, torch.Tensor]]:
    """Each weight by its name in a checkpoint; none on other ranks than 0."""
    for model in learner.models:
        if model.ddp_config.overlap_param_gather:
            model.start_param_sync(force_sync=True)
    for name, tensor in learner.conversion.export(learner.models):
        if ranks.first:
            yield name, tensor.detach()


def whole_weights(learner: MegatronLearner, ranks: Ranks) -> dict[str, torch.Tensor]:
    """A copy of all in memory of the CPU; empty on other ranks than 0."""
    return {name: tensor.to("cpu", copy=True) for name, tensor in each_weight(learner, ranks)}
