"""`python measure_lora.py FOLDER`: what adapters do on the policy of torch, as numbers, in a line of JSON.

Runs in the environment that has torch; `test_lora.py` says what the numbers have to be.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tests.training.grpo.tiny_policy import RecordingSender, batch, make_experts, make_model, settings, stored_tensors
from transformers import AutoModelForCausalLM

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.grpo.lora import ADAPTER_FOLDER, adapters, without_adapters
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import PolicySettings

LORA: dict[str, Any] = {"enabled": True, "dim": 4, "alpha": 8}
OPTIMIZER: dict[str, Any] = {"kwargs": {"lr": 2e-2, "weight_decay": 0.0}}
REPLICA = [ReplicaInfo("policy-0", "", 0)]
Weights = dict[str, torch.Tensor]


def lora_settings(folder: Path, lora: dict[str, Any] = LORA, loss: Any = None, **policy: Any) -> PolicySettings:
    checkpointing = {"activation_checkpointing": policy.pop("checkpointing", False)}
    own: dict[str, Any] = {"optimizer": OPTIMIZER, "dtensor_cfg": {"lora_cfg": lora, **checkpointing}}
    return settings(folder, loss, **own, **policy)


def parameters(policy: TorchPolicy) -> Weights:
    return {name: value.detach().clone() for name, value in policy._learner.model.model.named_parameters()}


def distance(one: Weights, other: Weights) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name].detach().float() - other[name].detach().float()).abs().max()) for name in one)


def row_log_probs(model: Any, dtype: torch.dtype) -> torch.Tensor:
    """Of the trained tokens of a batch, row after row."""
    found = []
    for row in batch().rows:
        with torch.no_grad():
            logits = model(torch.from_numpy(row.ids)[None]).logits[0].float().log_softmax(-1)
        at = np.flatnonzero(row.loss_mask)
        found.append(logits[at - 1, row.ids[at]])
    return torch.cat(found)


def scored(policy: TorchPolicy, *, reference: bool = False) -> torch.Tensor:
    rows = batch().rows
    values = policy._learner.score(rows, range(len(rows)), reference=reference)
    return torch.cat([values[nth] for nth in range(len(rows))])


async def agreement(folder: Path, precision: str) -> dict[str, Any]:
    """Log-probs of the trainer, of what it sends, of what it exports, and by the formula of the paper."""
    sender = RecordingSender()
    policy = TorchPolicy(lora_settings(folder, precision=precision), sender=sender)
    dtype = getattr(torch, precision)
    start = parameters(policy)
    at_first = scored(policy)
    told = [dict((await policy.train(batch(step))).metrics) for step in range(3)]
    after = parameters(policy)
    layers = adapters(policy._learner.model.model)
    frozen = {name: value for name, value in after.items() if "lora_" not in name}
    moved = {name: float((value - start[name]).abs().max()) for name, value in after.items() if "lora_" in name}
    await policy.send(3, REPLICA, clear_cache=True)
    exported = folder / f"lora-{precision}"
    await policy.export(exported)
    model = AutoModelForCausalLM.from_pretrained(exported, dtype=dtype, attn_implementation="sdpa").eval()
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval()
    original = row_log_probs(base, dtype)
    trained = scored(policy)
    merged = row_log_probs(model, dtype)
    loaded = dict(model.named_parameters())
    for name, layer in layers.items():
        hook = by_the_paper(layer.lora_a.detach().to(dtype), layer.lora_b.detach().to(dtype), layer.scale)
        base.get_submodule(name).register_forward_hook(hook)
    result = {
        "layers": len(layers),
        "first": float((at_first - original).abs().max()),
        "trained": float((trained - original).abs().max()),
        "merged": float((trained - merged).abs().max()),
        "paper": float((trained - row_log_probs(base, dtype)).abs().max()),
        "reference": float((scored(policy, reference=True) - original).abs().max()),
        "sent": sorted(sender.weights) == sorted(loaded) and distance(sender.weights, dict(loaded)) == 0,
        "frozen": distance(frozen, {name: start[name] for name in frozen}),
        "moved": min(moved.values()),
        "dtypes": sorted({f"{'lora' if 'lora_' in name else 'own'} {value.dtype}" for name, value in after.items()}),
        "optimized": sum(len(group["params"]) for group in policy._learner.optimizer.param_groups),
        "grad_norm": [one["train/grad_norm"] for one in told],
        "adapter": sorted(load_file(exported / ADAPTER_FOLDER / "adapter_model.safetensors")),
    }
    await policy.stop()
    return result


def by_the_paper(a: torch.Tensor, b: torch.Tensor, scale: float) -> Any:
    def hook(_: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return output + scale * (inputs[0] @ a.T @ b.T)

    return hook


async def gradient(folder: Path) -> dict[str, Any]:
    """Against torch's own gradient of the same weight, made by plain operations."""
    policy = TorchPolicy(lora_settings(folder))
    await policy.train(batch(0))
    layer = adapters(policy._learner.model.model)["model.layers.0.mlp.up_proj"]
    x = torch.randn(2, 5, layer.in_features, requires_grad=True)
    (layer(x) ** 2).sum().backward()
    own = [x.grad.clone(), layer.lora_a.grad.clone(), layer.lora_b.grad.clone()]
    x.grad = layer.lora_a.grad = layer.lora_b.grad = None
    ((x @ (layer.weight + layer.scale * layer.lora_b @ layer.lora_a).T) ** 2).sum().backward()
    plain = [x.grad, layer.lora_a.grad, layer.lora_b.grad]
    relative = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(own, plain, strict=True)]
    await policy.stop()
    return {"relative": max(relative), "weight": layer.weight.grad is None}


async def resumed(folder: Path) -> dict[str, Any]:
    own = lora_settings(folder)
    first, second = TorchPolicy(own), TorchPolicy(own)
    for step in range(2):
        await first.train(batch(step))
    state = folder / "lora-state"
    await first.save(state)
    await second.load(state)
    last = [dict((await policy.train(batch(2))).metrics) for policy in (first, second)]
    stored = stored_tensors(state)
    weights = {name for name in stored if name.startswith("weights.")}
    steps = [name for name in stored if name.startswith("optimizer.") and name.endswith(".step")]
    result = {
        "same": distance(parameters(first), parameters(second)) == 0 and last[0] == last[1],
        "stored": sorted({name.rpartition(".")[2] for name in weights}),
        "states": len(steps),
    }
    plain = TorchPolicy(settings(folder))
    try:
        await plain.load(state)
        result["refused"] = None
    except Exception as error:
        result["refused"] = f"{type(error).__name__}: {error}"
    for policy in (first, second, plain):
        await policy.stop()
    return result


async def divergence(folder: Path) -> dict[str, Any]:
    policy = TorchPolicy(lora_settings(folder, loss={"reference_policy_kl_penalty": 0.1}))
    told = [(await policy.train(batch(step))).metrics["train/kl_penalty"] for step in range(3)]
    own = policy._learner.model.model
    with without_adapters(own):
        on = [layer.active for layer in adapters(own).values()]
    await policy.stop()
    return {"kl": told, "on_without": any(on), "one_model": policy._learner._reference is policy._learner.model}


async def checkpointed(folder: Path) -> dict[str, Any]:
    found = []
    for checkpointing in (False, True):
        policy = TorchPolicy(lora_settings(folder, checkpointing=checkpointing))
        for step in range(2):
            await policy.train(batch(step))
        found.append(parameters(policy))
        await policy.stop()
    return {"apart": distance(*found)}


async def targets(folder: Path) -> dict[str, Any]:
    experts = folder / "experts"
    make_experts(experts)
    cases = {
        "names": {"target_modules": ["q_proj", "v_proj"]},
        "pattern": {"target_modules": ["*.layers.1.mlp.*"]},
        "excluded": {"exclude_modules": ["*.mlp.*"]},
    }
    found: dict[str, Any] = {}
    for name, case in cases.items():
        policy = TorchPolicy(lora_settings(folder, {**LORA, **case}))
        found[name] = sorted(adapters(policy._learner.model.model))
        await policy.stop()
    policy = TorchPolicy(lora_settings(experts))
    await policy.train(batch(0))
    found["experts"] = sorted({name.rpartition(".")[2] for name in adapters(policy._learner.model.model)})
    await policy.stop()
    try:
        TorchPolicy(lora_settings(folder, {**LORA, "target_modules": ["c_attn"]}))
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return found


async def main() -> None:
    folder = Path(sys.argv[1])
    make_model(folder)
    result = {
        "float32": await agreement(folder, "float32"),
        "bfloat16": await agreement(folder, "bfloat16"),
        "gradient": await gradient(folder),
        "resumed": await resumed(folder),
        "divergence": await divergence(folder),
        "checkpointed": await checkpointed(folder),
        "targets": await targets(folder),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
