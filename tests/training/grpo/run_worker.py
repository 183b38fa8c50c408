"""A rollout worker in a process of its own, which runs groups until it is killed; a program.

python -m tests.training.grpo.run_worker CONFIG ROWS
"""

import asyncio
import sys
from pathlib import Path

from paddock.config import Config
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rows import IndexedRows
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings


async def run(config: Config, rows: IndexedRows) -> None:
    worker = RolloutWorker(config, WorkerSettings(GrpoSettings(), GroupSettings()))
    await worker.start()
    sys.stdout.write("started\n")
    sys.stdout.flush()
    while True:
        await worker.run_group(GroupJob(0, 0, 0), rows.group(0, size=4, epoch=0, run_id="killed", sampling={}), 0)


if __name__ == "__main__":
    given = Config.from_yaml(Path(sys.argv[1]).read_text())
    asyncio.run(run(given, IndexedRows(given, Path(sys.argv[2]), {})))
