"""`python measure_loads.py FOLDER NAMES N PORT RANK`: one of N processes that load models by their own part; rank 0
writes a line of JSON with how they differ from `from_pretrained`. It claims nothing.

`... measure_loads.py FOLDER NAME N PORT RANK peak`: this process's peak of memory by loading one, of all ranks, in
MB. Runs in the environment that has torch; `test_loads.py` says what has to come of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.training.grpo.tiny_policy import VOCABULARY, make_experts, settings
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from paddock.errors import ConfigError
from paddock.training.grpo.language_model import LanguageModel, load_model
from paddock.training.grpo.policy_settings import RankInfo
from paddock.training.grpo.sharding import ShardGroup, whole

SHARD_SIZE = "60KB"
MB = 1 << 20


def make_models(folder: Path) -> None:
    """Of several files each: tied and of odd sizes, untied, a mixture, and one without a weight. `large`: 142 million
    weights in bfloat16."""
    size: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    small: dict[str, Any] = {**size, "hidden_size": 64, "intermediate_size": 126, "vocab_size": VOCABULARY}
    torch.manual_seed(1)
    tied = Qwen3ForCausalLM(Qwen3Config(**small, head_dim=32, tie_word_embeddings=True))
    tied.save_pretrained(folder / "tied", max_shard_size=SHARD_SIZE)
    untied = LlamaForCausalLM(LlamaConfig(**small, tie_word_embeddings=False))
    untied.to(torch.bfloat16).save_pretrained(folder / "untied", max_shard_size=SHARD_SIZE)
    make_experts(folder / "whole_experts")
    experts = AutoModelForCausalLM.from_pretrained(folder / "whole_experts")
    experts.save_pretrained(folder / "experts", max_shard_size=SHARD_SIZE)
    weights = {name: value for name, value in tied.state_dict().items() if "layers.1.mlp.up" not in name}
    tied.save_pretrained(folder / "lacking", state_dict=weights)
    large = {**size, "num_hidden_layers": 8, "hidden_size": 1024, "intermediate_size": 4096, "vocab_size": 8000}
    LlamaForCausalLM(LlamaConfig(**large)).bfloat16().save_pretrained(folder / "large", max_shard_size="50MB")


def loaded(folder: Path, shard_group: ShardGroup, **policy: Any) -> LanguageModel:
    own = settings(folder, **policy).policy
    return LanguageModel(load_model(own, shard_group), own, shard_group)


def compared(folder: Path, shard_group: ShardGroup) -> dict[str, Any]:
    model = loaded(folder, shard_group).model
    known = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    own = {name: whole(value) for name, value in model.named_parameters()}
    parts = [value.to_local() for value in model.parameters()]
    buffers = dict(model.named_buffers())
    return {
        "files": len(list(folder.glob("*.safetensors"))),
        "weights": sorted(name for name, value in known.named_parameters() if not torch.equal(own[name], value)),
        "buffers": sorted(name for name, value in known.named_buffers() if not torch.equal(buffers[name], value)),
        "names": [sorted(own) == sorted(dict(known.named_parameters())), len(own), len(buffers)],
        "own": all(one.untyped_storage().nbytes() == one.nbytes for one in parts),
        "parts": [one.shape[0] / value.shape[0] for one, value in zip(parts, model.parameters(), strict=True)],
        "dtypes": sorted({str(value.dtype) for value in model.parameters()}),
    }


def refused(folder: Path, shard_group: ShardGroup) -> str:
    try:
        loaded(folder, shard_group)
    except ConfigError as error:
        return str(error)
    return ""


def peak() -> float:
    """The most memory that this process has had, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main(folder: Path, names: str, n_processes: int, port: int, rank: int, *, peaks: bool) -> None:
    shard_group = ShardGroup(RankInfo(rank, n_processes, master_port=port), torch.device("cpu"))
    shard_group.join()
    found: Any
    if peaks:
        loaded(folder / "tied", shard_group)
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on
        before, model = peak(), loaded(folder / names, shard_group).model
        sums = [float(value.to_local().sum() if shard_group.sharded else value.sum()) for value in model.parameters()]
        found = {"peaks": shard_group.share(peak() - before), "read": len(sums)}
    else:
        found = {name: compared(folder / name, shard_group) for name in names.split(",")}
        found["lacking"] = refused(folder / "lacking", shard_group)
    if rank == 0:
        sys.stdout.write("\n" + json.dumps(found) + "\n")
    shard_group.leave()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 2:
        make_models(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6]), peaks=sys.argv[6:] == ["peak"])
