"""What operators see of nodes and ask of them: metrics, images, draining; over HTTP and by `paddock sandbox`."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from tests.sandbox.remote.conftest import TOKEN, NodeFixture, Serve

from paddock.cli import main
from paddock.sandbox import BudgetExceeded, ExecRequest, SandboxSpec
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox.remote.room import FreeRoom, NodeRoom, NodeStatus
from paddock.sandbox_server.telemetry import NodeTelemetry

pytestmark = pytest.mark.sandbox
ClientOf = Callable[..., RemoteProvider]
HEADERS = {"authorization": f"Bearer {TOKEN}"}


async def get(node: NodeFixture, path: str) -> str:
    async with aiohttp.ClientSession(headers=HEADERS) as session, session.get(node.url + path) as reply:
        assert reply.status == 200
        return await reply.text()


@pytest.mark.slow
async def test_metrics_tell_what_is_there_and_count_calls_by_how_they_ended(
    home: Path, serve: Serve, client_of: ClientOf, image: str
) -> None:
    node = await serve(home, max_sandboxes=1, cores=4)
    client = client_of(node.url)
    handle = await client.create(SandboxSpec(image=image), request_id="a")
    for number in range(3):
        await client.exec(handle.sandbox_id, ExecRequest(argv=["true"]), request_id=str(number))
    with pytest.raises(FileNotFoundError):
        await client.read(handle.sandbox_id, "/none")
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        async with session.post(node.url + "/v1/leases", json={"ttl_s": 60}) as reply:
            lease = {"x-paddock-lease": (await reply.json())["lease_id"], "x-paddock-call": "a"}
        async with session.post(node.url + "/v1/sandboxes", json={"image": image}, headers=lease) as reply:
            assert reply.status == 409
    told = (await get(node, "/metrics")).splitlines()
    for line in (
        'paddock_node_calls_total{result="ok",route="POST /v1/sandboxes"} 1.0',
        'paddock_node_calls_total{result="full",route="POST /v1/sandboxes"} 1.0',
        'paddock_node_calls_total{result="ok",route="POST /v1/sandboxes/{sandbox_id}/exec"} 3.0',
        'paddock_node_calls_total{result="file",route="GET /v1/sandboxes/{sandbox_id}/file"} 1.0',
        "paddock_node_sandboxes 1.0",
        "paddock_node_clients 2.0",
        "paddock_node_draining 0.0",
        'paddock_node_free{part="sandboxes"} 0.0',
        'paddock_node_free{part="cores"} 3.75',
    ):
        assert line in told
    assert not [line for line in told if handle.sandbox_id in line or "/none" in line]


async def test_how_a_call_ended_is_told_by_who_is_to_blame() -> None:
    telemetry = NodeTelemetry()

    async def fail(error: BaseException) -> None:
        raise error

    for error in (BudgetExceeded("memory", "spent"), asyncio.CancelledError(), KeyError("bug")):
        with pytest.raises(type(error)):
            await telemetry.counted("route", lambda error=error: fail(error))  # type: ignore[misc] # bound now
    admission = AdmissionSettings(memory_mib=1, cores=1)
    room = NodeRoom(admission=admission, free=FreeRoom.of(admission.total()))
    told = telemetry.exposition(sandboxes=0, clients=0, room=room).decode()
    for result in ("policy", "cancelled", "us"):
        assert f'paddock_node_calls_total{{result="{result}",route="route"}} 1.0' in told
    assert 'part="disk_mib"' not in told


@pytest.mark.slow
async def test_a_draining_node_keeps_its_sandboxes_and_takes_none_until_it_may_again(
    home: Path, serve: Serve, client_of: ClientOf, image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = await serve(home, max_sandboxes=5)
    (tmp_path / "token").write_text(TOKEN)

    async def command(*words: str) -> int:
        return await asyncio.to_thread(main, ["sandbox", *words, "--token-file", str(tmp_path / "token")])

    client = client_of(node.url)
    kept = await client.create(SandboxSpec(image=image), request_id="a")
    assert await command("drain", node.url) == 0
    assert "draining" in capsys.readouterr().out
    result = await client.exec(kept.sandbox_id, ExecRequest(argv=["echo", "here"]), request_id="b")
    assert bytes(result.stdout) == b"here\n"
    waiting = asyncio.ensure_future(client.create(SandboxSpec(image=image), request_id="c"))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    assert await command("uncordon", node.url) == 0
    await waiting
    capsys.readouterr()
    gone = "http://127.0.0.1:1"
    assert await command("nodes", node.url, gone, "--json") == 1
    well, lost = json.loads(capsys.readouterr().out)
    assert (well["url"], well["why_not"]) == (node.url, None)
    status = NodeStatus.model_validate(well["status"])
    assert (status.sandboxes, status.leases, status.room.draining) == (2, 1, False)
    assert (status.runtime, status.room.free.sandboxes) == ("bubblewrap", 3)
    assert status.images == len(json.loads(await get(node, "/images"))["names"]) > 0
    assert (lost["url"], lost["status"]) == (gone, None)
    assert gone in lost["why_not"]
    assert await command("nodes", node.url) == 0
    assert "2 sandboxes, 1 clients" in capsys.readouterr().out


async def test_nobody_drains_a_node_without_its_token(node: NodeFixture) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/drain", "/uncordon"):
            async with session.post(node.url + path) as reply:
                assert reply.status == 401
        for path in ("/images", "/metrics"):
            async with session.get(node.url + path) as reply:
                assert reply.status == 401
