"""verl's V1 worker over our agent loop, with a real TransferQueue, as JSON: `drive_v1.py FOLDER MODE`."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import ray
import transfer_queue as tq
from library import (  # type: ignore[import-not-found]
    ROWS,
    ScriptedClient,
    World,
    objects,
    prompts,
    right_call,
    token_output,
)
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from paddock.training.verl.clients import close_clients


async def generate(worker: Any) -> None:
    try:
        await worker.generate_sequences(prompts(ROWS[:2]))
        while worker.background_tasks:
            await asyncio.sleep(0.05)
    finally:
        await close_clients()


def main(folder: Path, mode: str) -> None:
    # Logical ones: the queue takes one for its controller and one for each storage.
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    world = World(folder, mode=mode, n=5)

    def answer(number: int) -> Any:
        if number % 5 == 1:
            raise RuntimeError("the engine is gone")
        return token_output(world.ids(right_call(ROWS[number % 2])), number)

    client = ScriptedClient(world.config, answer)
    worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(world.config, client)
    asyncio.run(generate(worker))
    listed = tq.kv_list("train")["train"]
    keys = sorted(key for key in listed if key.count("_") == 2)
    data = tq.kv_batch_get(keys=keys, partition_id="train")
    rows = [
        {
            "key": key,
            "prompt": data["prompts"][nth].tolist(),
            "response": data["responses"][nth].tolist(),
            "mask": data["response_mask"][nth].tolist(),
            "log_probs": data["rollout_log_probs"][nth].tolist(),
            "reward": float(data["rm_scores"][nth].sum()),
        }
        for nth, key in enumerate(keys)
    ]
    fields = TensorDict(
        {name: data[name].to_padded_tensor(0) for name in ("response_mask", "rm_scores")}, batch_size=len(keys)
    )
    proto = DataProto(batch=fields)
    proto.batch["token_level_rewards"] = proto.batch["rm_scores"]
    proto.non_tensor_batch["uid"] = objects([key.split("_")[0] for key in keys])
    scored = compute_advantage_for_multi_trajectories(proto, keys, "grpo", config=world.config.algorithm)
    found = {
        "out": str(world.out),
        "rows": rows,
        "status": {key: tag["status"] for key, tag in listed.items() if "_" not in key},
        "tags": [listed[key] for key in keys],
        "advantages": np.array(scored.batch["advantages"].abs().amax(-1)).tolist(),
        "signs": np.array(scored.batch["advantages"].sum(-1).sign()).tolist(),
    }
    (folder / "found.json").write_text(json.dumps(found, default=str))
    tq.close()
    ray.shutdown()


if __name__ == "__main__":
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    main(Path(sys.argv[1]), sys.argv[2])
