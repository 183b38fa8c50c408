"""Nodes on machines of their own: power cuts and cables that are pulled, with real sandboxes on the other side."""

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from paddock.sandbox import ExecRequest, ExecResult, Provider, SandboxError, SandboxSettings, SandboxSpec
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.remote.client import RemoteProvider
from paddock.testing.machines import machines, why_no_machines
from paddock.testing.nodes import NodeMachine

TOKEN = "of-the-nodes"
WHY_NOT = why_no_machines()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.slow,
    pytest.mark.skipif(WHY_NOT is not None or not shutil.which("bwrap"), reason=f"{WHY_NOT or 'no bwrap'}"),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[NodeMachine]]:
    with machines(2) as made:
        nodes = [NodeMachine(machine, TOKEN) for machine in made]
        for node in nodes:
            tiny_image(node.store, rich=True)
            node.serve()
        yield nodes


@asynccontextmanager
async def client_of(node: NodeMachine, lease_ttl_s: float) -> AsyncIterator[RemoteProvider]:
    settings = SandboxSettings(nodes=(node.url,), lease_ttl_s=lease_ttl_s, answer_margin_s=5.0)
    client = RemoteProvider(settings, token=TOKEN)
    try:
        yield client
    finally:
        await client.close()


async def created(provider: Provider, node: NodeMachine) -> str:
    spec = SandboxSpec(image=tiny_image(node.store, rich=True))
    return (await provider.create(spec, request_id=uuid.uuid4().hex)).sandbox_id


async def run(provider: Provider, sandbox_id: str, script: str) -> ExecResult:
    request = ExecRequest(argv=["sh", "-c", script], timeout_s=60)
    return await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)


async def test_a_cable_pulled_for_five_seconds_costs_a_command_nothing_but_time(nodes: list[NodeMachine]) -> None:
    async with client_of(nodes[0], lease_ttl_s=30.0) as client:
        sandbox = await created(client, nodes[0])
        running = asyncio.ensure_future(run(client, sandbox, "echo x >> /tmp/runs; sleep 3; cat /tmp/runs"))
        await asyncio.sleep(1)
        nodes[0].machine.cut()
        await asyncio.sleep(5)
        nodes[0].machine.mend()
        assert bytes((await running).stdout) == b"x\n"
        assert bytes((await run(client, sandbox, "cat /tmp/runs")).stdout) == b"x\n"


async def test_a_cut_longer_than_the_lease_is_the_machines_and_the_node_ends_what_was_made(
    nodes: list[NodeMachine],
) -> None:
    async with client_of(nodes[0], lease_ttl_s=4.0) as client, client_of(nodes[1], lease_ttl_s=4.0) as other:
        sandbox, living = await created(client, nodes[0]), await created(other, nodes[1])
        running = asyncio.ensure_future(run(client, sandbox, "sleep 4321"))
        await until_runs(nodes[0], "sleep 4321")
        nodes[0].machine.cut()
        with pytest.raises(SandboxError) as lost:
            await running
        assert (lost.value.kind, lost.value.retryable) == ("node_lost", True)
        await until_runs(nodes[0], "sleep 4321", runs=False)
        nodes[0].machine.mend()
        again = await created(client, nodes[0])
        assert bytes((await run(client, again, "echo back")).stdout) == b"back\n"
        assert bytes((await run(other, living, "echo here")).stdout) == b"here\n"


async def test_a_power_cut_is_the_machines_and_the_node_serves_again_with_its_images(nodes: list[NodeMachine]) -> None:
    async with client_of(nodes[0], lease_ttl_s=3.0) as client, client_of(nodes[1], lease_ttl_s=3.0) as other:
        sandbox, living = await created(client, nodes[0]), await created(other, nodes[1])
        running = asyncio.ensure_future(run(client, sandbox, "sleep 4322"))
        await until_runs(nodes[0], "sleep 4322")
        nodes[0].machine.kill()
        with pytest.raises(SandboxError) as lost:
            await running
        assert (lost.value.kind, lost.value.retryable) == ("node_lost", True)
        assert bytes((await run(other, living, "echo here")).stdout) == b"here\n"
        nodes[0].machine.boot()
        nodes[0].serve()
        again = await created(client, nodes[0])
        assert bytes((await run(client, again, "echo back")).stdout) == b"back\n"


async def until_runs(node: NodeMachine, program: str, *, runs: bool = True) -> None:
    async with asyncio.timeout(20):
        while (program in node.programs()) is not runs:
            await asyncio.sleep(0.2)
