"""`python -m tests.training.grpo.measure_cluster LOGS`: what roles on the nodes of a cluster do, in a line of JSON.

Runs as a driver of a Ray of three nodes, on the first; `test_cluster.py` says what it has to be.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import orjson
from tests.training.grpo.measure_processes import error_of
from tests.training.grpo.tiny_policy import batch, make_model, settings

from paddock.errors import ConfigError
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.placement import RoleNeed
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.remote import start_policy

NEEDS = [RoleNeed("policy", 1, label="node=m2"), RoleNeed("engines", 1, label="node=m3"), RoleNeed("rollouts", 1)]
RANKS = [RoleNeed("policy", 2), RoleNeed("engines", 0), RoleNeed("rollouts", 0)]
STEPS = 3
NOWHERE = [RoleNeed("policy", 1, label="node=m9"), *NEEDS[1:]]


class PlacedRole:
    """A role."""

    async def where(self) -> str:
        print(f"on {socket.gethostname()}", flush=True)  # noqa: T201 - into its log
        return socket.gethostname()

    async def die(self) -> None:
        print("last words", flush=True)  # noqa: T201 - into its log
        os._exit(3)

    async def stop(self) -> None:
        """Nothing is held."""


async def make() -> PlacedRole:
    return PlacedRole()


async def refusal(processes: RoleProcesses, *how: Any) -> list[str]:
    try:
        await processes.place(*how)
    except ConfigError as error:
        return [error.kind, error.message]
    return []


async def measure(processes: RoleProcesses, logs: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"nowhere": await refusal(processes, NOWHERE)}
    found["not_shared"] = await refusal(processes, NEEDS, logs.parent / "own")
    await processes.end()
    placement = await processes.place(NEEDS, Path(os.environ["SHARED"]))
    found["nodes"] = {place.role: place.node.name for place in placement.all}
    roles = {place.role: processes.start(place.role, place) for place in placement.all}
    for role in roles.values():
        await role.make(make)
    found["hosts"] = {name: await role.call("where") for name, role in roles.items()}
    found["died"] = await error_of(roles["engines"], "die")
    await processes.end()
    return found


async def measure_policy(processes: RoleProcesses, shared: Path) -> dict[str, Any]:
    """Steps of a policy over two nodes, and of the same in this process."""
    own = settings(shared / "model")
    placement = await processes.place(RANKS, shared)
    apart = await start_policy(processes, placement.policy, own, 300.0)
    alone = await asyncio.to_thread(TorchPolicy, own)
    losses = [
        [(await policy.train(batch(step))).metrics["train/loss"] for step in range(STEPS)] for policy in (apart, alone)
    ]
    await processes.end()
    return {"ranks": [place.node.name for place in placement.policy], "losses": losses}


def main() -> None:
    logs, shared = Path(sys.argv[1]), Path(os.environ["SHARED"])
    with open_processes(logs, ClusterConfig(address="auto", wait_s=2)) as processes:
        found = asyncio.run(measure(processes, logs))
        found["logs"] = {path.stem: path.read_text() for path in sorted(logs.glob("*.log"))}
        make_model(shared / "model")
        found |= asyncio.run(measure_policy(processes, shared))
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")


if __name__ == "__main__":
    main()
