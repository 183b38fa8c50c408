"""`python measure_loads.py FOLDER RANK CASES`: one of the processes that load a model into layers of Megatron-core, in
one layout after the other; rank 0 writes a line of JSON with how weights differ from those that are read whole, and
what memory each process took. It claims nothing.

CASES: JSON, a list of `{name, model, world_size, port, megatron}`. The models are in FOLDER, which alone makes them.
Runs in the environment that has torch; `test_loads.py` says what the numbers have to be.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tests.training.grpo.megatron.cpu_megatron import prepare
from tests.training.grpo.megatron.tiny import settings
from tests.training.grpo.tiny_policy import make_experts
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from paddock.errors import ConfigError
from paddock.training.grpo.policy_settings import RankInfo

MB = 1 << 20
VOCABULARY, WIDTH = 49152, 512
"""Of the model whose load is measured: an embedding of 24 million weights, 48 MB in its file."""


def make_models(folder: Path) -> None:
    """In several files: with one head of keys and values and with biases, and one that is measured."""
    size: dict[str, Any] = {"num_attention_heads": 4, "num_hidden_layers": 2}
    torch.manual_seed(1)
    small: dict[str, Any] = {**size, "hidden_size": 64, "intermediate_size": 128, "vocab_size": 96}
    two, one = (Qwen2ForCausalLM(Qwen2Config(**small, num_key_value_heads=heads)) for heads in (2, 1))
    for name, model in (("biases", two), ("one_head", one)):
        for value in model.parameters():
            torch.nn.init.normal_(value)
        model.save_pretrained(folder / name, max_shard_size="60KB")
    make_experts(folder / "experts", 96)
    large: dict[str, Any] = {**size, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "vocab_size": VOCABULARY}
    config = Qwen3Config(**large, num_key_value_heads=2, head_dim=128, tie_word_embeddings=False)
    Qwen3ForCausalLM(config).bfloat16().save_pretrained(folder / "large", max_shard_size="60MB")


def whole_part(conversion: Any, name: str, parameter: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """A rank's part of a weight that is read and converted whole."""
    from paddock.training.grpo.megatron.mbridge_conversion import _shard_of

    bridge = conversion._bridge
    names = bridge._weight_name_mapping_mcore_to_hf(name)
    whole = bridge._weight_to_mcore_format(name, [weights[one] for one in names])
    size, rank = _shard_of(name)
    if whole.shape == parameter.shape:
        return whole
    dim = next(dim for dim, (all_, own) in enumerate(zip(whole.shape, parameter.shape, strict=True)) if all_ != own)
    if "linear_fc1" not in name:
        return whole.chunk(size, dim)[rank]
    return torch.cat([half.chunk(size)[rank] for half in whole.chunk(2)])


def differences(conversion: Any, models: list[Any], folder: Path) -> list[str]:
    from megatron.core import parallel_state

    from paddock.training.grpo.megatron.mbridge_conversion import _global_name, _named_parameters

    weights = {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}
    rank = parallel_state.get_expert_model_parallel_rank()
    found = []
    for model in models:
        for own, parameter in _named_parameters(model):
            name = _global_name(own, conversion._n_experts_here, rank)
            if not torch.equal(parameter, whole_part(conversion, name, parameter, weights).to(parameter.dtype)):
                found.append(name)
    return found


def peak() -> float:
    """The most memory that this process has had, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def forget_peak() -> float:
    """What the process has now, from where the peak is measured anew, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def measured(folder: Path, rank: int, case: dict[str, Any]) -> dict[str, Any]:
    from paddock.training.grpo.megatron.conversions import make_conversion
    from paddock.training.grpo.megatron.ranks import Ranks

    own = settings(folder / case["model"], {"processes": case["world_size"], **case["megatron"]})
    place = RankInfo(rank, case["world_size"], master_port=case["port"])
    ranks = Ranks(own.policy.megatron_cfg, place, torch.device("cpu"), 1)
    conversion = make_conversion(own.policy)
    models = conversion.models()
    for model in models:
        for value in model.parameters():
            torch.nn.init.zeros_(value)
    before = forget_peak()
    conversion.load(models)
    grew = peak() - before
    parameters = [value for model in models for value in model.parameters()]
    told = {
        "grew": ranks.share(grew),
        "held": ranks.share(sum(value.nbytes for value in parameters) / MB),
        "different": ranks.share(differences(conversion, models, folder / case["model"])),
        "n_weights": ranks.share(len(parameters)),
    }
    ranks.leave()
    return told


def refused(folder: Path) -> list[str]:
    """What is said of a folder without files, and of a weight that is in none."""
    from paddock.training.grpo.megatron.weight_files import WeightFiles

    told = []
    for work in (lambda: WeightFiles(folder), lambda: WeightFiles(folder / "biases").shape("model.none.weight")):
        try:
            work()
        except ConfigError as error:
            told.append(str(error))
    return told


def main(folder: Path, rank: int, cases: list[dict[str, Any]]) -> None:
    prepare()
    found: dict[str, Any] = {case["name"]: measured(folder, rank, case) for case in cases}
    found["refused"] = refused(folder)
    if rank == 0:
        sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 2:
        make_models(Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
