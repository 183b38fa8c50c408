"""`python measure_shards.py FOLDER N PORT RANK`: five steps of one of N processes that hold a policy; rank 0 writes a
line of JSON, and what it ended with into FOLDER/shards-N.

Runs in the environment that has torch; `test_sharding.py` says what has to come of it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.training.grpo.tiny_policy import LENGTHS, RecordingSender, batch, settings, stored_weights
from transformers import AutoModelForCausalLM

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import RankInfo

STEPS = 5


async def main(folder: Path, n_processes: int, port: int, rank: int) -> None:
    # A process too many for the last rows, so that one of them computes without a row.
    lengths = LENGTHS[:5]
    packing = {"enabled": n_processes > 1, "train_mb_tokens": 32}
    own = settings(folder / "model", {"reference_policy_kl_penalty": 0.01}, threshold=1e6, sequence_packing=packing)
    kept = RecordingSender()
    policy = await asyncio.to_thread(TorchPolicy, own, RankInfo(rank, n_processes, master_port=port), sender=kept)
    told = [await policy.train(batch(step, lengths)) for step in range(STEPS)]
    state = folder / f"shards-{n_processes}"
    await policy.save(state, background=True)
    after = await policy.train(batch(STEPS, lengths))
    await policy.finish_save()
    await policy.load(state)
    again = await policy.train(batch(STEPS, lengths))
    await policy.load(state)
    other = folder / "shards-2"
    if n_processes == 1:  # what two have written
        await policy.load(other)
        loaded = await policy.train(batch(STEPS, lengths))
        await policy.load(state)
    sent = await policy.send(7, [ReplicaInfo("policy-0", "http://127.0.0.1:9", 0)], clear_cache=True)
    await policy.export(state / "export")
    found: dict[str, Any] = {"loss": [one.metrics["train/loss"] for one in told], "metrics": told[-1].metrics}
    if rank == 0:
        stored = stored_weights(state)
        found["sent"] = all(torch.equal(stored[name], value) for name, value in kept.weights.items())
        exported = AutoModelForCausalLM.from_pretrained(state / "export", dtype="auto").state_dict()
        found["exported"] = all(torch.equal(exported[name], value) for name, value in stored.items())
        found["architectures"] = json.loads((state / "export" / "config.json").read_text())["architectures"]
        found["told"] = [sent.replicas, len(kept.weights)]
        found["other"] = loaded.metrics["train/loss"] if n_processes == 1 else None
        found["resumed"] = [after.metrics["train/loss"], again.metrics["train/loss"]]
        found["grad_norm"] = [after.metrics["train/grad_norm"], again.metrics["train/grad_norm"]]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    await policy.stop()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
