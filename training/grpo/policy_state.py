"""The policy on disk: a state that training goes on from exactly, and an export in the form of Hugging Face.

State   one file, `policy.pt`: weights, optimiser state and learning rates by the parameters' names and whole, the
        schedule, random states by rank. It does not depend on how many processes wrote it: others may read it; random
        states are then those of a start.
Law     on one process the steps after a load are those without it, to the bit.
LoRA    a state has adapters alone; the model's own weights are those that it begins with.
Export  weights in the computation's precision under the names of the checkpoint format, config, generation config, and
        the tokenizer's files and chat template, copied; with LoRA the adapters are in the weights, and alone in
        `adapter/`.
Errors  InfraError for a folder without a state, or with that of another model, and when the disk refuses one.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from paddock.errors import InfraError
from paddock.training.grpo.lora import ADAPTER_FOLDER, adapters, write_adapter
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.sharding import (
    DTYPES,
    ShardGroup,
    part_as,
    stored_parameters,
    whole,
    whole_parameters,
    whole_weights,
)

STATE_FILE = "policy.pt"
TOKENIZER_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.tiktoken",
    "spiece.model",
    "sentencepiece*",
    "chat_template*",
)


def save_state(folder: Path, shard_group: ShardGroup, model: Any, optimizer: Any, scheduler: Any | None) -> None:
    """Called by every process; rank 0 writes."""
    stored = stored_parameters(model)
    weights = dict(whole_parameters(stored, shard_group, torch.float32))
    states = {name: _whole_state(optimizer.state.get(value, {})) for name, value in stored.items()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    random = shard_group.share(_random_state())
    if not shard_group.first:
        return
    state = {
        "weights": weights,
        "optimizer": states,
        "groups": groups,
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "random": random,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / STATE_FILE)
    except (OSError, RuntimeError) as error:  # a full disk is torch's RuntimeError
        raise InfraError(f"{folder}: can't be written: {error}", kind="disk", retryable=False) from error


def load_state(folder: Path, shard_group: ShardGroup, model: Any, optimizer: Any, scheduler: Any | None) -> None:
    """Called by every process; each reads."""
    try:
        state = torch.load(folder / STATE_FILE, map_location="cpu", mmap=True, weights_only=True)
    except FileNotFoundError as error:
        raise InfraError(f"{folder} has no {STATE_FILE}: it is no state of a policy", kind="checkpoint") from error
    named = stored_parameters(model)
    if (stored_shapes := {name: tuple(value.shape) for name, value in state["weights"].items()}) != {
        name: tuple(value.shape) for name, value in named.items()
    }:
        raise InfraError(f"{folder} has {len(stored_shapes)} weights, not those of this model", kind="checkpoint")
    with torch.no_grad():
        for name, value in named.items():
            value.copy_(part_as(value, state["weights"][name]))
            stored = state["optimizer"][name]
            optimizer.state[value] = {key: _state_part(optimizer, value, part) for key, part in stored.items()}
    for group, stored_group in zip(optimizer.param_groups, state["groups"], strict=True):
        group.update(stored_group)
    if scheduler is not None and state["scheduler"] is not None:
        scheduler.load_state_dict(state["scheduler"])
    if len(state["random"]) == shard_group.rank_info.world_size:
        _set_random_state(state["random"][shard_group.rank_info.rank])


def export_model(folder: Path, shard_group: ShardGroup, model: Any, policy: PolicyConfig) -> None:
    """Called by every process; rank 0 writes."""
    dtype = DTYPES[policy.precision]
    weights = dict(whole_weights(model, shard_group, dtype))
    adapter = dict(whole_parameters(stored_parameters(model), shard_group, dtype)) if adapters(model) else {}
    if not shard_group.first:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(model.config, dtype=dtype)
    empty.load_state_dict({name: value.to("cpu") for name, value in weights.items()}, strict=False, assign=True)
    empty.tie_weights()
    empty.save_pretrained(folder)
    copy_tokenizer(policy.tokenizer.name or policy.model_name, folder)
    if adapter:
        write_adapter(folder / ADAPTER_FOLDER, adapter, policy.dtensor_cfg.lora_cfg, policy.model_name)


def copy_tokenizer(source: str, folder: Path) -> None:
    """Copy the files of a tokenizer in a folder as they are; save that of a hub name by Transformers."""
    if not Path(source).is_dir():
        AutoTokenizer.from_pretrained(source).save_pretrained(folder)
        return
    for pattern in TOKENIZER_FILES:
        for file in Path(source).glob(pattern):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)


def _whole_state(state: dict[str, Any]) -> dict[str, Any]:
    return {
        key: whole(value).to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
        for key, value in state.items()
    }


def _state_part(optimizer: Any, parameter: torch.Tensor, value: Any) -> Any:
    """A part of the optimizer's state where that optimizer keeps it: bitsandbytes has memory of its own for paged
    ones."""
    if not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
        return _part_for(parameter, value)
    if not hasattr(optimizer, "get_state_buffer"):
        return _part_for(parameter, value)
    return optimizer.get_state_buffer(parameter, dtype=value.dtype).copy_(value)


def _part_for(parameter: torch.Tensor, value: Any) -> Any:
    """A copy of the process's own: what was read is a view of the file. Counts are on the CPU, where torch has them."""
    return part_as(parameter, value.clone()) if isinstance(value, torch.Tensor) else value


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
