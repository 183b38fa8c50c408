"""Published tasks, one after the other: each is built, graded after nothing was done, and after its solution.

Usage   python benchmarks/harbor_public_tasks.py FOLDER ... [--isolation shared|fresh] [--build-network host]
        FOLDER: a task's. The images that its Dockerfile starts from must be in reach of the container engine.
Prints  a line for each task: seconds for its image and its rollouts, outcomes, rewards; then sums. Exit 1 where a
        solution is not paid, nothing is, or either has no verdict. Images are removed again.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from paddock.agents.swe import SweAgent
from paddock.agents.swe.config import SweAgentConfig
from paddock.conformance.scripted import ModelConfig, ScriptedModel
from paddock.errors import PaddockError
from paddock.http import RUN, Call, Peer, read_row
from paddock.resources_servers.harbor import HarborServer
from paddock.resources_servers.harbor.config import HarborServerConfig
from paddock.resources_servers.harbor.images import HarborImages, TaskImages
from paddock.resources_servers.harbor.make_rows import row_of
from paddock.sandbox import SandboxLimits, SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.testing import over
from paddock.types import Rollout


class TaskReport(NamedTuple):
    image_s: float
    rollouts_s: float
    results: list[str]
    is_right: bool


async def report(folder: Path, options: argparse.Namespace) -> TaskReport:
    """Build a task, and run and grade it."""
    settings = SandboxSettings()
    images = HarborImages(build_network=options.build_network)
    row = read_row(row_of(folder, folder.parent))
    config = HarborServerConfig(
        tasks_dir=folder.parent,
        isolation=options.isolation,
        public_network="run_without",
        images=images,
        limits=SandboxLimits(disk_mib=4096),
    )
    peers: dict[str, Peer] = {}
    server = HarborServer(config, name="harbor", peers=peers)
    harnesses = ["null", "gold"] if row.task.get("solution") else ["null"]
    agents = [agent_of(harness, peers) for harness in harnesses]
    store = ImageStore(settings.home, payload_id=settings.payload_id)
    started = time.monotonic()
    image = (await TaskImages(store, images).ensure(server.read_task(row).published.image)).record.name
    built = time.monotonic()
    try:
        async with over("direct", server, ScriptedModel(ModelConfig(), name="policy", peers=peers), *agents) as found:
            rollouts: list[Rollout] = [await found[name].call(RUN, row, Call()) for name in harnesses]
    finally:
        store.remove(image)
        store.remove(image.partition("#")[0])
    played = list(zip(harnesses, rollouts, strict=True))
    right = all(rollout.reward is not None and (rollout.reward == 1.0) == (name == "gold") for name, rollout in played)
    results = [f"{name} {result_of(rollout)}" for name, rollout in played]
    return TaskReport(built - started, time.monotonic() - built, results, right)


def agent_of(harness: str, peers: dict[str, Peer]) -> SweAgent:
    """Make the agent that plays a harness, called as the harness is."""
    config = SweAgentConfig(
        resources_server={"type": "resources_servers", "name": "harbor"},
        model_server={"type": "models_servers", "name": "policy"},
        harness=harness,
        limits=SandboxLimits(memory_mib=8192),
    )
    return SweAgent(config, name=harness, peers=peers)


def result_of(rollout: Rollout) -> str:
    """Say how a rollout ended."""
    if rollout.failure:
        return f"{rollout.outcome}: {rollout.failure.message[-300:]}"
    return f"{rollout.outcome} {rollout.reward:g}"


async def main() -> int:
    parser = argparse.ArgumentParser(description="Builds, solves and grades published tasks.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--isolation", choices=["fresh", "shared"], default="shared")
    parser.add_argument("--build-network", choices=["default", "host", "none"], default="default")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for folder in options.folders:
        try:
            found = await report(folder.resolve(), options)
        except PaddockError as error:
            counts["failed"] += 1
            print(f"{folder.name}: {error.message[-600:]}", flush=True)
            continue
        counts["right" if found.is_right else "wrong"] += 1
        times = f"image {found.image_s:.1f} s, rollouts {found.rollouts_s:.1f} s"
        wrong = "" if found.is_right else " (wrong)"
        print(f"{folder.name}: {times}: {'; '.join(found.results)}{wrong}", flush=True)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    return int(set(counts) != {"right"})


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
