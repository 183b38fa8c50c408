"""`python measure_critic_shards.py MODEL N PORT RANK`: three steps of one of N processes that hold a policy and its
critic; rank 0 writes a line of JSON.

Runs in the environment that has torch; `test_critic.py` says what has to come of it.
"""

import asyncio
import json
import sys
from pathlib import Path

import torch
from tests.training.grpo.tiny_policy import LENGTHS, batch, settings

from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import RankInfo
from paddock.training.grpo.value_config import ValueConfig


async def main(folder: Path, n_processes: int, port: int, rank: int) -> None:
    value = ValueConfig.model_validate({"enabled": True, "optimizer": {"kwargs": {"lr": 1e-3}}})
    own = settings(folder).model_copy(update={"value": value})
    policy = await asyncio.to_thread(TorchPolicy, own, RankInfo(rank, n_processes, master_port=port))
    # A process too many for the last rows, so that one of them computes without a row.
    metrics = [dict((await policy.train(batch(step, LENGTHS[:5]))).metrics) for step in range(3)]
    state = folder.parent / f"critic-{n_processes}"
    await policy.save(state)
    after = (await policy.train(batch(3, LENGTHS[:5]))).metrics
    await policy.load(state)
    again = (await policy.train(batch(3, LENGTHS[:5]))).metrics
    await policy.stop()
    if rank == 0:
        names = ("train/value/loss", "train/value/grad_norm", "train/value/mean", "train/loss")
        found = {name: [one[name] for one in metrics] for name in names}
        resumed = [[one[name] for name in names] for one in (after, again)]
        sys.stdout.write(json.dumps({"metrics": found, "resumed": resumed}) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
