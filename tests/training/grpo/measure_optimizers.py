"""`python measure_optimizers.py FOLDER`: what each optimizer does to the policy, as numbers, in a line of JSON.

Runs in the environment that has torch and bitsandbytes; `test_optimizers.py` says what the numbers have to be.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, get_args

import torch
from tests.training.grpo.tiny_policy import batch, make_model, settings

from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_config import OptimizerConfig

NAMES = get_args(OptimizerConfig.model_fields["name"].annotation)
STEPS = 4


def parameters(policy: TorchPolicy) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in policy._learner.model.model.named_parameters()}


def state_bytes(policy: TorchPolicy) -> float:
    """Of the optimizer, for each weight of the large tensors."""
    optimizer, sizes = policy._learner.optimizer, [0, 0]
    for value, state in optimizer.state.items():
        if value.numel() >= 4096:
            sizes[0] += sum(part.nbytes for part in state.values() if getattr(part, "shape", None) == value.shape)
            sizes[1] += value.numel()
    return sizes[0] / sizes[1]


async def measured(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    own = settings(folder, optimizer={"name": name, "kwargs": {"lr": 7e-4, "weight_decay": 0.01}})
    one, two = TorchPolicy(own), TorchPolicy(own)
    for step in range(STEPS - 1):
        await one.train(batch(step))
    state = folder / name
    await one.save(state)
    await two.load(state)
    metrics = [dict((await policy.train(batch(STEPS - 1))).metrics) for policy in (one, two)]
    found, again = parameters(one), parameters(two)
    same = metrics[0] == metrics[1] and all(torch.equal(found[key], again[key]) for key in found)
    result = {"resumed": same, "bytes": state_bytes(one), "class": type(one._learner.optimizer).__name__}
    await one.stop()
    await two.stop()
    return result, found


async def main() -> None:
    folder = Path(sys.argv[1])
    make_model(folder)
    start = TorchPolicy(settings(folder))
    first = parameters(start)
    await start.stop()
    results, weights = {}, {}
    for name in NAMES:
        results[name], weights[name] = await measured(folder, name)
    plain = weights["torch.optim.AdamW"]
    for name, own in weights.items():
        apart = sum(float((own[key] - plain[key]).square().sum()) for key in own) ** 0.5
        moved = sum(float((plain[key] - first[key]).square().sum()) for key in own) ** 0.5
        results[name]["share_of_movement"] = apart / moved
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
