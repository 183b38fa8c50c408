"""The policy on Megatron-core on disk: a state that training goes on from, and an export in the form of Hugging Face.

State   core's `dist_checkpointing`, in `megatron/` of the folder: weights, optimizer and schedule, each process its
        part. It does not depend on the layout: another one may read it.
Law     files are written by this process alone: core's own writer starts a server process that nobody would end, and
        forks.
Export  weights in the computation's precision under the names of the checkpoint format, the model's config, and the
        tokenizer's files and chat template, copied.
Errors  InfraError for a folder without a state, or with that of another model, and when the disk refuses one.
"""

import shutil
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.distributed as dist
from huggingface_hub import save_torch_state_dict
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.core import CheckpointingException
from megatron.core.dist_checkpointing.dict_utils import nested_values
from megatron.core.dist_checkpointing.strategies import torch as torch_format
from torch.distributed.checkpoint.api import CheckpointException
from transformers import AutoConfig

from paddock.errors import InfraError
from paddock.training.grpo.megatron.learner import MegatronLearner
from paddock.training.grpo.megatron.ranks import Ranks
from paddock.training.grpo.megatron.torch_adam import loadable
from paddock.training.grpo.megatron.weights import whole_weights
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.policy_state import copy_tokenizer, damaged
from paddock.training.grpo.state_writer import StateWriter, not_written

STATE = "megatron"
_FORMAT = {"distrib_optim_sharding_type": "fully_reshardable", "chained_optim_avoid_prefix": True}


class _LocalSaveStrategy(torch_format.TorchDistSaveShardedStrategy):  # type: ignore[misc]
    """Core's format, written by this process alone, without a writer process."""

    def __init__(self, write: Callable[..., None], *, background: bool) -> None:
        super().__init__("torch_dist", 1)
        self._write = partial(write, background=background, copied=background)
        self._background = background

    def save(self, sharded_state_dict: Any, checkpoint_dir: Any) -> None:
        state, *_ = torch_format._replace_state_dict_keys_with_sharded_keys(
            sharded_state_dict, self.keep_only_main_replica
        )
        planner = torch_format.MCoreSavePlanner(dedup_replicated_tensors=False, flatten_state_dict=False)
        if self._background:  # torch's own stager can't copy what core makes of them
            for shard in nested_values(state):
                own = shard.data
                shard.data = own.detach().to("cpu", copy=True) if isinstance(own, torch.Tensor) else deepcopy(own)
        stored = torch_format.mcore_to_pyt_state_dict(state, is_loading=False)
        self._write(Path(checkpoint_dir), stored, planner=planner)


def save_state(
    folder: Path, ranks: Ranks, learner: MegatronLearner, writer: StateWriter, *, background: bool = False
) -> None:
    """Called by every process; each writes. `background`: tensors are copied, and are on the disk after the writer's
    `finish`."""
    target = folder / STATE
    write = partial(writer.write, group=ranks.writing_group)
    try:
        if ranks.first:
            target.mkdir(parents=True, exist_ok=True)
        dist.barrier()
        dist_checkpointing.save(
            _state(learner, loading=False),
            str(target),
            sharded_strategy=_LocalSaveStrategy(write, background=background),
            content_metadata=_FORMAT,
        )
    except (OSError, RuntimeError) as error:
        raise not_written(target, error) from error


def load_state(folder: Path, learner: MegatronLearner) -> None:
    """Called by every process; each reads its part."""
    target = folder / STATE
    if not target.is_dir():
        raise InfraError(f"{folder} has no {STATE}: it is no state of a policy on Megatron-core", kind="checkpoint")
    try:
        with loadable(learner.optimizer):
            state = dist_checkpointing.load(_state(learner, loading=True), str(target))
            for nth, model in enumerate(learner.models):
                model.module.load_state_dict(state[f"model{nth}"])
            learner.optimizer.load_state_dict(state["optimizer"])
    except (CheckpointException, UnpicklingError, EOFError) as error:
        raise damaged(target, error) from error
    except (CheckpointingException, KeyError, RuntimeError) as error:
        raise InfraError(f"{target} is not of this model: {error}", kind="checkpoint") from error
    learner.scheduler.load_state_dict(state["scheduler"])


def export_model(folder: Path, ranks: Ranks, learner: MegatronLearner, policy: PolicyConfig) -> None:
    """Called by every process; rank 0 writes."""
    weights = whole_weights(learner, ranks)
    if not ranks.first:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(weights, folder)
    config = AutoConfig.from_pretrained(policy.model_name)
    config.dtype = next(iter(weights.values())).dtype
    config.save_pretrained(folder)
    _copy_generation(policy.model_name, folder)
    copy_tokenizer(policy.tokenizer.name or policy.model_name, folder)


def _copy_generation(model: str, folder: Path) -> None:
    """Copy the model's generation config, where it has one."""
    file = Path(model).expanduser() / "generation_config.json"
    if file.is_file():
        shutil.copyfile(file, folder / file.name)


def _state(learner: MegatronLearner, *, loading: bool) -> dict[str, Any]:
    metadata = dict(_FORMAT)  # core notes its groups in it
    state: dict[str, Any] = {
        f"model{nth}": model.module.sharded_state_dict(metadata=metadata) for nth, model in enumerate(learner.models)
    }
    shards = state["model0"] if len(learner.models) == 1 else dict(state)
    state["optimizer"] = learner.optimizer.sharded_state_dict(shards, is_loading=loading, metadata=metadata)
    return {**state, "scheduler": learner.scheduler.state_dict()}
