"""The processes of a policy on Megatron-core: which part of the model, and which rows, this one has.

Law     processes that differ in tensor or pipeline parallelism alone have the same rows; each data-parallel group of
        them has its own. The last stage's first tensor rank of each group has the results of a batch, and returns them.
Errors  what torch raises: a process that does not come in time, or dies.
"""

from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.policy_settings import RankInfo
from paddock.training.grpo.sharding import meet


class Ranks:
    """The ranks of this process. All processes have joined when this is made."""

    def __init__(self, config: MegatronConfig, rank_info: RankInfo, device: torch.device, seed: int) -> None:
        self.rank_info = rank_info
        self.device = device
        meet(rank_info, device)
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=config.tensor_model_parallel_size,
            pipeline_model_parallel_size=config.pipeline_model_parallel_size,
            context_parallel_size=config.context_parallel_size,
            expert_model_parallel_size=config.expert_model_parallel_size,
            expert_tensor_parallel_size=config.expert_tensor_parallel,
            create_gloo_process_groups=config.use_gloo_process_groups,
        )
        self.writing_group = dist.new_group(backend="gloo")
        """Of all processes, for writing in the background."""
        torch.manual_seed(seed)
        if device.type == "cuda":
            model_parallel_cuda_manual_seed(seed)

    @property
    def first(self) -> bool:
        return self.rank_info.rank == 0

    @property
    def alone(self) -> bool:
        return self.rank_info.world_size == 1

    @property
    def data_rank(self) -> int:
        return int(parallel_state.get_data_parallel_rank())

    @property
    def data_size(self) -> int:
        return int(parallel_state.get_data_parallel_world_size())

    @property
    def answers(self) -> bool:
        """Whether this process returns the results for its rows."""
        own = (parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_context_parallel_rank())
        return bool(parallel_state.is_pipeline_last_stage()) and own == (0, 0)

    def share(self, own: Any) -> list[Any]:
        """The values of all processes, in order of ranks; every process has to call it."""
        values: list[Any] = [None] * self.rank_info.world_size
        dist.all_gather_object(values, own)
        return values

    def leave(self) -> None:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()
