"""`python measure_states.py FOLDER RANK CASES`: what a policy on Megatron-core stores, exports, and leaves as it is.

Rank 0 writes a line of JSON. It claims nothing.

Every case is a policy; `save` and `load` name folders below FOLDER. Runs in the environment that has torch;
`test_states.py` says what has to come of it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.training.grpo.megatron.measure_layouts import Megatron, Weights, apart
from tests.training.grpo.megatron.tiny import batch, settings
from tests.training.grpo.tiny_policy import full_disk
from transformers import AutoModelForCausalLM

from paddock.training.grpo.policy_settings import RankInfo

BEFORE = 2
"""Steps before a state is stored."""


async def measured(folder: Path, rank: int, case: dict[str, Any]) -> dict[str, Any]:
    megatron = {"processes": case["world_size"], **case["megatron"]}
    own = settings(folder / case["model"], megatron, case.get("loss"), **case.get("policy", {}))
    one = Megatron(own, RankInfo(rank, case["world_size"], master_port=case["port"]))
    first = await one.weights()
    if "load" in case:
        await one.policy.load(folder / case["load"])
    else:
        for step in range(BEFORE):
            await one.policy.train(batch(step))
    learnt = await one.weights()
    if "save" in case:
        await one.policy.save(folder / case["save"], background=True)
        await one.policy.export(folder / case["save"] / "export")
    told = (await one.policy.train(batch(BEFORE))).metrics
    after = await one.weights()
    await one.policy.finish_save()
    full = await error_of_full_disk(one, folder / case["save"] / "full") if "save" in case else ""
    await one.policy.stop()
    if rank:
        return {}
    torch.save({"learnt": learnt, "after": after}, folder / f"{case['name']}.pt")
    found: dict[str, Any] = {"metrics": dict(told), "moved": moved(first, after)}
    if "save" in case:
        found["full"] = full
        found["exported"] = exported(folder / case["save"] / "export", learnt)
    if "like" in case:
        like = torch.load(folder / f"{case['like']}.pt", weights_only=True)
        found |= {"learnt": apart(learnt, like["learnt"]), "after": apart(after, like["after"])}
    return found


async def error_of_full_disk(one: Megatron, folder: Path) -> str:
    try:
        with full_disk():
            await one.policy.save(folder)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def moved(first: Weights, after: Weights) -> list[str]:
    return [name for name, value in first.items() if not torch.equal(value, after[name])]


def exported(folder: Path, weights: Weights) -> dict[str, Any]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    stored = sum(value.numel() for value in model.parameters())
    files = sorted(one.name for one in folder.iterdir())
    name = "model.embed_tokens.weight"
    same = torch.equal(model.state_dict()[name], weights[name])
    return {
        "parameters": stored,
        "sent": sum(value.numel() for value in weights.values()),
        "files": files,
        "same": same,
    }


async def main(folder: Path, rank: int, cases: list[dict[str, Any]]) -> None:
    found = {case["name"]: await measured(folder, rank, case) for case in cases}
    if rank == 0:
        sys.stdout.write("\n" + json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
