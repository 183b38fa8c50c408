"""`python policy_by_lines.py MODEL SETTINGS < commands`: the policy of a run, told by lines of JSON what to do.

Runs in the environment that has torch and vLLM. `send`: version, replicas (name, URL, start), whether caches are
cleared. `train`: step, rows. The reply is what the policy answered.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.training.grpo.tiny_policy import settings

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.core.records import Batch, TrainRow, VersionSpan
from paddock.training.grpo.policy import TorchPolicy, make_policy

DTYPES = {"ids": np.int32, "loss_mask": np.bool_, "generation_log_probs": np.float32, "advantages": np.float32}


async def answered(policy: TorchPolicy, command: dict[str, Any]) -> dict[str, Any]:
    if "send" in command:
        replicas = [ReplicaInfo(*one) for one in command["replicas"]]
        sent = await policy.send(command["send"], replicas, clear_cache=command["clear_cache"])
        return {**sent._asdict(), "failed": dict(sent.failed)}
    rows = [_row(one) for one in command["rows"]]
    return dict((await policy.train(Batch(command["train"], rows, [], [], []))).metrics)


def _row(told: dict[str, Any]) -> TrainRow:
    spans = tuple(VersionSpan(*span) for span in told.pop("versions"))
    arrays: dict[str, Any] = {name: np.array(told.pop(name), dtype) for name, dtype in DTYPES.items()}
    return TrainRow(**told, **arrays, reward=0.0, oldest=None, newest=None, versions=spans)


async def main() -> None:
    own = {"max_total_sequence_length": 4096, "train_micro_batch_size": 4, **json.loads(sys.argv[2])}
    policy = await make_policy(settings(Path(sys.argv[1]), **own))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(await answered(policy, json.loads(line))) + "\n")
        sys.stdout.flush()
    await policy.stop()


if __name__ == "__main__":
    asyncio.run(main())
