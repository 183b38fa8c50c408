"""The policy on disk: a state that training goes on from exactly, and an export in the form of Hugging Face.

State   in `shards/`, by torch's distributed checkpoint: weights and optimiser state by the parameters' names, each
        process its part, so that none has all of them in memory; in `policy.pt` learning rates, the schedule, random
        states by rank. It does not depend on how many processes wrote it: others may read it; random states are then
        those of a start.
Law     on one process the steps after a load are those without it, to the bit.
LoRA    a state has adapters alone; the model's own weights are those that it begins with.
Export  weights in the computation's precision under the names of the checkpoint format, config, generation config, and
        the tokenizer's files and chat template, copied; with LoRA the adapters are in the weights, and alone in
        `adapter/`.
Errors  InfraError for a folder without a state, with a damaged one or that of another model or version, and when the
        disk refuses one.
"""

import shutil
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, load
from torch.distributed.checkpoint.api import CheckpointException
from transformers import AutoModelForCausalLM, AutoTokenizer

from paddock.errors import InfraError
from paddock.training.grpo.lora import ADAPTER_FOLDER, adapters, write_adapter
from paddock.training.grpo.policy_config import PolicyConfig
from paddock.training.grpo.sharding import (
    DTYPES,
    ShardGroup,
    stored_parameters,
    whole_parameters,
    whole_weights,
)
from paddock.training.grpo.state_writer import StateWriter, not_written, reason_of

STATE_FILE = "policy.pt"
SHARDS = "shards"
WEIGHT, OPTIMIZER = "weights.", "optimizer."
"""The beginnings of the keys in it."""
UNREADABLE = (CheckpointException, UnpicklingError, RuntimeError, EOFError)
"""What torch raises of files that are damaged."""
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


def save_state(
    folder: Path,
    shard_group: ShardGroup,
    model: Any,
    optimizer: Any,
    scheduler: Any | None,
    writer: StateWriter,
    *,
    background: bool = False,
) -> None:
    """Called by every process; each writes its part. `background`: tensors are copied, and are on the disk after the
    writer's `finish`."""
    stored = stored_parameters(model)
    tensors = {f"{WEIGHT}{name}": value.detach() for name, value in stored.items()}
    numbers: dict[str, dict[str, Any]] = {}
    for name, value in stored.items():
        own = optimizer.state.get(value, {})
        tensors |= {f"{OPTIMIZER}{name}.{key}": part for key, part in own.items() if isinstance(part, torch.Tensor)}
        numbers[name] = {key: part for key, part in own.items() if not isinstance(part, torch.Tensor)}
    state = {
        "numbers": numbers,
        "groups": [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups],
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "random": shard_group.share(_random_state()),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shard_group.first:
            small = BytesIO()  # torch's own file says nothing of a full disk
            torch.save(state, small)
            (folder / STATE_FILE).write_bytes(small.getvalue())
    except OSError as error:
        raise not_written(folder, error) from error
    group, alone = shard_group.writing_group, not shard_group.sharded
    writer.write(folder / SHARDS, tensors, background=background, group=group, alone=alone)


def load_state(folder: Path, shard_group: ShardGroup, model: Any, optimizer: Any, scheduler: Any | None) -> None:
    """Called by every process; each reads its part."""
    try:
        state = torch.load(folder / STATE_FILE, map_location="cpu", weights_only=True)
        reader = FileSystemReader(folder / SHARDS)
        stored = reader.read_metadata().state_dict_metadata
    except FileNotFoundError as error:
        raise InfraError(_what_is_missing(folder), kind="checkpoint", retryable=False) from error
    except UNREADABLE as error:
        raise damaged(folder, error) from error
    named = stored_parameters(model)
    shapes = {key.removeprefix(WEIGHT): tuple(one.size) for key, one in stored.items() if key.startswith(WEIGHT)}
    if shapes != {name: tuple(value.shape) for name, value in named.items()}:
        raise InfraError(f"{folder} has {len(shapes)} weights, not those of this model", kind="checkpoint")
    for name, value in named.items():
        optimizer.state[value] = dict(state["numbers"][name])
    tensors: dict[str, torch.Tensor] = {f"{WEIGHT}{name}": value.detach() for name, value in named.items()}
    for key, one in stored.items():
        if key.startswith(OPTIMIZER):
            name, _, part = key.removeprefix(OPTIMIZER).rpartition(".")
            tensors[key] = optimizer.state[named[name]][part] = _room(optimizer, named[name], one)
    try:
        load(tensors, storage_reader=reader, no_dist=not shard_group.sharded)
    except UNREADABLE as error:
        raise damaged(folder, error) from error
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


def _what_is_missing(folder: Path) -> str:
    if (folder / STATE_FILE).exists() and not (folder / SHARDS).exists():
        return (
            f"{folder} is a state of the version before, all of it in {STATE_FILE}, which is not read: end the run "
            "with that version, or begin a new one with the weights that it exports as policy.model_name"
        )
    return f"{folder} has no {STATE_FILE} or {SHARDS}: it is no state of a policy"


def damaged(folder: Path, error: BaseException) -> InfraError:
    """The error of a state whose files are not what was written."""
    return InfraError(
        f"{folder} can't be read: {reason_of(error)}; without this checkpoint a run goes on from the one before",
        kind="checkpoint",
        retryable=False,
    )


def _room(optimizer: Any, parameter: torch.Tensor, stored: Any) -> torch.Tensor:
    """Memory for a tensor of the optimizer's state, where that optimizer keeps it: sharded as the parameter is, and of
    bitsandbytes', which has memory of its own for paged ones, there. Counts are on the CPU, where torch has them."""
    dtype = stored.properties.dtype
    if stored.size != parameter.shape:
        device = parameter.device if len(stored.size) else "cpu"
        return torch.empty(stored.size, dtype=dtype, device=device)
    if hasattr(optimizer, "get_state_buffer"):
        buffer: torch.Tensor = optimizer.get_state_buffer(parameter, dtype=dtype)
        return buffer
    return torch.empty_like(parameter.detach(), dtype=dtype)


def _random_state() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
