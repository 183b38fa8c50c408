"""`python measure_lora_shards.py FOLDER N PORT RANK`: three steps of one of N processes that hold adapters of a policy;
rank 0 writes what it sends and stores into FOLDER/lora-N.

Runs in the environment that has torch; `test_lora.py` says what has to come of it.
"""

import asyncio
import sys
from pathlib import Path

import torch
from tests.training.grpo.measure_lora import REPLICA, lora_settings
from tests.training.grpo.tiny_policy import RecordingSender, batch

from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import RankInfo


async def main(folder: Path, n_processes: int, port: int, rank: int) -> None:
    own, sender = lora_settings(folder / "model", loss={"reference_policy_kl_penalty": 0.01}), RecordingSender()
    policy = await asyncio.to_thread(TorchPolicy, own, RankInfo(rank, n_processes, master_port=port), sender=sender)
    losses = [(await policy.train(batch(step))).metrics["train/loss"] for step in range(3)]
    state = folder / f"lora-{n_processes}"
    await policy.save(state)
    after = await policy.train(batch(3))
    await policy.load(state)
    again = await policy.train(batch(3))
    await policy.load(state)
    await policy.send(3, REPLICA, clear_cache=True)
    if rank == 0:
        resumed = after.metrics["train/loss"] == again.metrics["train/loss"]
        torch.save({"sent": sender.weights, "losses": losses, "resumed": resumed}, state / "sent.pt")
    await policy.stop()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
