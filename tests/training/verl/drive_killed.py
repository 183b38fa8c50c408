"""A worker of verl's whose rollouts never end, until it is killed: `drive_killed.py FOLDER`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from library import ROWS, ScriptedClient, World, batch_of, token_output  # type: ignore[import-not-found]
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker


def main(folder: Path) -> None:
    world = World(folder)

    def answer(number: int) -> Any:
        return token_output([1], number)

    client = ScriptedClient(world.config, answer, delay_s=3600)
    worker = AgentLoopWorker(world.config, client)

    async def generate() -> None:
        task = asyncio.create_task(worker.generate_sequences(batch_of(ROWS[:1], 2)))
        while client.running < 2:
            await asyncio.sleep(0.05)
        (folder / "running").touch()
        await task

    asyncio.run(generate())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
