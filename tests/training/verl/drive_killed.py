"""A V1 worker of verl's, an actor of Ray's, whose rollouts wait for an engine that gives no answer, until the program
is killed: `drive_killed.py FOLDER N`. FOLDER has `environment.yaml` and `rows.jsonl`, and gets a file `asked` with a
byte for each call of the engine.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import ray
from library import ScriptedClient, World, prompts, token_output  # type: ignore[import-not-found]
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ


class SilentClient(ScriptedClient):  # type: ignore[misc]
    """Gives no answer."""

    def __init__(self, config: Any, asked: Path) -> None:
        super().__init__(config, lambda number: token_output([1], number))
        self.asked = asked

    async def generate(self, *_arguments: Any, **_named: Any) -> Any:
        with self.asked.open("ab") as file:
            file.write(b".")
        await asyncio.Event().wait()


def main(folder: Path, size: int) -> None:
    world = World(folder / "verl", n=size, prompt_length=60_000, environment=folder / "environment.yaml")
    # Logical ones: the queue takes one for its controller and one for each storage.
    ray.init(num_cpus=8, include_dashboard=False)
    worker = AgentLoopWorkerTQ.remote(world.config, SilentClient(world.config, folder / "asked"))
    rows = [orjson.loads(line) for line in (folder / "rows.jsonl").read_bytes().splitlines()]
    ray.get(worker.generate_sequences.remote(prompts(rows)))
    time.sleep(3600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
