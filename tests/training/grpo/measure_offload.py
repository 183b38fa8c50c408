"""`python measure_offload.py FOLDER N PORTS RANK`: three steps of one of N processes, with weights offloaded and
without; rank 0 writes a line of JSON. It claims nothing.

Runs in the environment that has torch; `test_sharding.py` says what has to come of it.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.training.grpo.tiny_policy import RecordingSender, batch, settings

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import RankInfo

REPLICA = [ReplicaInfo("policy-0", "http://127.0.0.1:9", 0)]


async def measured(folder: Path, place: RankInfo, *, offload: bool) -> dict[str, Any]:
    own = settings(folder / "model", {"reference_policy_kl_penalty": 0.01}, dtensor_cfg={"cpu_offload": offload})
    sender = RecordingSender()
    policy = await asyncio.to_thread(TorchPolicy, own, place, sender=sender)
    told = [await policy.train(batch(step)) for step in range(3)]
    state = folder / f"offload-{place.world_size}-{offload}"
    await policy.save(state, background=True)
    after = await policy.train(batch(3))
    await policy.finish_save()
    await policy.load(state)
    again = await policy.train(batch(3))
    await policy.send(1, REPLICA, clear_cache=True)
    await policy.stop()
    resumed = after.metrics["train/loss"] == again.metrics["train/loss"]
    return {"metrics": [dict(one.metrics) for one in told], "resumed": resumed, "sent": sender.weights}


async def main(folder: Path, n_processes: int, ports: list[int], rank: int) -> None:
    plain, offloaded = [
        await measured(folder, RankInfo(rank, n_processes, master_port=port), offload=offload)
        for port, offload in zip(ports, (False, True), strict=True)
    ]
    if rank:
        return
    one, other = plain.pop("sent"), offloaded.pop("sent")
    apart = max(float((one[name] - other[name]).abs().max()) for name in one)
    sys.stdout.write("\n" + json.dumps({"plain": plain, "offloaded": offloaded, "apart": apart}) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), list(map(int, sys.argv[3].split(","))), int(sys.argv[4])))
