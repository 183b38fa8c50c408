"""Nodes of sandboxes on machines of a Ray cluster: found by their label, used as they join, let go of as they leave."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.remote.ray_lister import LABEL
from paddock.testing.machines import Machine, machines, why_no_machines
from paddock.testing.nodes import PORT, NodeMachine
from paddock.testing.ray_cluster import RayCluster

PYTHON = os.environ.get("PADDOCK_VLLM_PYTHON")
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.sandbox,
    pytest.mark.skipif(not PYTHON, reason="PADDOCK_VLLM_PYTHON: no environment with Ray"),
    pytest.mark.skipif(WHY_NOT is not None or not shutil.which("bwrap"), reason=f"{WHY_NOT or 'no bwrap'}"),
]
TOKEN = "of-the-nodes"
HEAD_LOST_S = 75.0
"""Longer than the minute after which Ray ends a driver whose head is gone."""
CLIENT = """
import asyncio, os, sys, uuid
from paddock.sandbox import ExecRequest, SandboxError, SandboxSettings, SandboxSpec
from paddock.sandbox.remote.client import RemoteProvider

image, inside = sys.argv[1:]
if inside == "inside":
    import ray

    ray.init(log_to_driver=False, logging_level="ERROR")
    os.environ["RAY_ADDRESS"] = "127.0.0.1:1"

async def run(client, seconds):
    spec = SandboxSpec(image=image, group="g")
    sandbox = (await client.create(spec, request_id=uuid.uuid4().hex)).sandbox_id
    shell = ExecRequest(argv=["sh", "-c", f"sleep {seconds} & echo started"], timeout_s=60)
    await client.exec(sandbox, shell, request_id=uuid.uuid4().hex)

async def main():
    fields = {"node_lookup_s": 0.5, "node_health_s": 2.0, "lease_ttl_s": 4.0, "answer_margin_s": 10.0}
    client = RemoteProvider(SandboxSettings(nodes="ray", **fields), token="of-the-nodes")
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            await run(client, line.strip())
            print("started", flush=True)
        except SandboxError as error:
            print(error.kind, flush=True)
    assert inside == "inside" or "ray" not in sys.modules
    await client.close()

asyncio.run(main())
"""


class NodeCluster:
    """A Ray cluster whose first machine has no sandboxes."""

    def __init__(self, made: list[Machine]) -> None:
        self.ray = RayCluster(made, Path(PYTHON or ""), cpus=1, object_store_mib=100)
        self.nodes = [NodeMachine(machine, TOKEN) for machine in made[1:]]
        for node in self.nodes:
            self.image = tiny_image(node.store, rich=True)
            node.serve()

    def join(self, node: NodeMachine) -> None:
        self.ray.start(node.machine, labels={LABEL: str(PORT)})

    @contextmanager
    def client(self, *, inside: bool = False, on: Machine | None = None) -> Iterator["subprocess.Popen[Any]"]:
        """A client of the nodes. `inside`: in a process of Ray."""
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        words = ["-c", CLIENT, self.image, "inside" if inside else "outside"]
        with self.ray.driver(words, node=on, **pipes) as client:
            yield client
            client.communicate(timeout=60)
            assert client.returncode == 0


@pytest.fixture
def cluster() -> Iterator[NodeCluster]:
    with machines(3) as made:
        cluster = NodeCluster(made)
        cluster.ray.start(made[0])
        cluster.join(cluster.nodes[0])
        yield cluster


def start(client: "subprocess.Popen[Any]", seconds: int) -> str:
    """Start a sandbox with a program that sleeps, wherever there is room: what became of it."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{seconds}\n")
    client.stdin.flush()
    for line in client.stdout:
        if line.strip() == "started" or line.startswith(("node_", "no_nodes")):
            return str(line.strip())
    raise AssertionError("the client has ended")


def sleeping(node: NodeMachine) -> set[int]:
    """The programs of sandboxes that run there."""
    lines = (line.split() for line in node.programs())
    return {int(words[1]) for words in lines if words[0] == "sleep"}


@pytest.mark.long
def test_nodes_of_the_cluster_are_used_and_so_is_one_that_joins(cluster: NodeCluster) -> None:
    first, second = cluster.nodes
    with cluster.client() as client:
        assert start(client, 4301) == "started"
        assert sleeping(first) == {4301}
        cluster.join(second)
        with cluster.client(inside=True) as other:
            assert [start(other, 4311), start(other, 4312)] == ["started"] * 2
            assert {len(sleeping(node) & {4311, 4312}) for node in cluster.nodes} == {1}
        assert start(client, 4302) == "started"
        assert 4302 in sleeping(second)
    assert not sleeping(first) | sleeping(second)


@pytest.mark.long
def test_a_node_that_loses_power_is_let_go_and_used_again_when_it_is_back(cluster: NodeCluster) -> None:
    first, second = cluster.nodes
    cluster.join(second)
    with cluster.client() as client:
        assert [start(client, 4321), start(client, 4322)] == ["started"] * 2
        second.machine.kill()
        assert [start(client, 4323), start(client, 4324)] == ["started"] * 2
        assert len(sleeping(first)) == 3
        second.machine.boot()
        second.serve()
        cluster.join(second)
        until(lambda: start(client, 4325) == "started" and 4325 in sleeping(second))


@pytest.mark.long
def test_a_cluster_whose_head_is_lost_costs_no_sandbox_and_its_nodes_stay_in_use(cluster: NodeCluster) -> None:
    first, second = cluster.nodes
    cluster.join(second)
    # On a machine of the cluster that is not its head, as an agent beside a trainer.
    with cluster.client(on=second.machine) as client:
        assert start(client, 4331) == "started"
        cluster.ray.nodes[0].kill()
        time.sleep(HEAD_LOST_S)
        assert start(client, 4332) == "started"
        assert sleeping(first) | sleeping(second) == {4331, 4332}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)
