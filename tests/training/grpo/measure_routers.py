"""`python measure_routers.py FOLDER`: what training moves of a tiny mixture of experts, in a line of JSON."""

import asyncio
import json
import sys
from pathlib import Path

import torch
from tests.training.grpo.tiny_policy import batch, make_experts, settings
from transformers import AutoModelForCausalLM

from paddock.training.grpo.policy import TorchPolicy


async def moved(folder: Path, *, frozen: bool) -> list[str]:
    """Names of the weights that two steps moved, one before and one after a resume."""
    optimizer = {"kwargs": {"lr": 7e-4, "weight_decay": 0.1}}
    own = settings(folder, freeze_moe_router=frozen, optimizer=optimizer)
    first, second = TorchPolicy(own), TorchPolicy(own)
    await first.train(batch(0))
    await first.save(folder / f"state-{frozen}")
    await second.load(folder / f"state-{frozen}")
    await second.train(batch(1))
    after = dict(second._learner.model.model.named_parameters())
    before = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    await first.stop()
    await second.stop()
    return [name for name, value in before.named_parameters() if not torch.equal(value, after[name])]


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    make_experts(folder)
    names = [name for name, _ in AutoModelForCausalLM.from_pretrained(folder).named_parameters()]
    found = {str(frozen): asyncio.run(moved(folder, frozen=frozen)) for frozen in (False, True)}
    sys.stdout.write(json.dumps({"names": names, **found}) + "\n")


if __name__ == "__main__":
    main()
