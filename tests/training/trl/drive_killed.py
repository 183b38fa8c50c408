"""`python drive_killed.py FOLDER {plain,async} GIVEN`: a trainer of TRL's whose rollouts never end, until it is killed.

GIVEN has the config of the environments and a row, a line of JSON each. FOLDER/asked has a line for each answer that a
rollout waits for.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from datasets import Dataset
from tests.training.trl.library import TrlWorld
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

from paddock.config import load
from paddock.rollouts import RolloutClient, RolloutOptions, open_rollouts
from paddock.training.trl.cpu import prepare
from paddock.training.trl.rollout_function import environment_reward, rollout_function
from paddock.training.trl.rows import dataset_rows
from paddock.training.trl.settings import TrlWorkerSettings
from paddock.training.trl.weights import FunctionWeights
from paddock.training.trl.worker import TrlRolloutWorker

SIZE = 2
Json = dict[str, Any]


def plain_trainer(world: TrlWorld, client: RolloutClient, row: Json, settings: Json) -> Any:
    return GRPOTrainer(
        model=world.model,
        args=GRPOConfig(num_generations=SIZE, **settings),
        processing_class=world.tokenizer,
        train_dataset=Dataset.from_list(dataset_rows([row])),
        reward_funcs=[environment_reward],
        rollout_func=rollout_function(client, [row]),
    )


def asynchronous_trainer(world: TrlWorld, client: RolloutClient, row: Json, settings: Json) -> Any:
    prepare()
    return AsyncGRPOTrainer(
        model=str(world.folder / "model"),
        args=AsyncGRPOConfig(token_budget=0, **settings),
        processing_class=world.tokenizer,
        train_dataset=Dataset.from_list(dataset_rows([row])),
        reward_funcs=[],
        rollout_worker=TrlRolloutWorker(client, [row], TrlWorkerSettings(num_generations=SIZE)),
        weight_transfer=FunctionWeights(client, lambda tensors: [None for _ in tensors].clear()),
    )


TRAINERS = {"plain": plain_trainer, "async": asynchronous_trainer}


def main(folder: Path, name: str, given: Path) -> None:
    world = TrlWorld(folder)
    tree, row = map(json.loads, given.read_text().splitlines())

    async def sample(ids: list[int], sampling: Json, *, rollout: str | None) -> Any:
        with (folder / "asked").open("a") as file:
            file.write(f"{rollout}\n")
        await asyncio.sleep(3600)

    settings = {
        "output_dir": str(folder / "out"),
        "use_cpu": True,
        "bf16": False,
        "max_steps": 1,
        "per_device_train_batch_size": SIZE,
        "report_to": [],
        "save_strategy": "no",
        "gradient_checkpointing": False,
    }
    with open_rollouts(
        load([], extra=tree, servers=()),
        engine=sample,
        engine_settings={"tokenizer": str(folder / "model")},
        model_server="policy",
        options=RolloutOptions(sample_mode="whole", max_rollouts=SIZE),
    ) as client:
        TRAINERS[name](world, client, row, settings).train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
