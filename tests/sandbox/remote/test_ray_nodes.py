"""The nodes of a Ray cluster as they come and go, with a Ray that is scripted and real sandboxes."""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from tests.sandbox.remote.conftest import TOKEN, NodeFixture, Serve

from paddock.cli import main
from paddock.errors import ConfigError
from paddock.http.access import bearer
from paddock.sandbox import ExecRequest, Provider, SandboxError, SandboxSettings, SandboxSpec
from paddock.sandbox.remote import ray_nodes
from paddock.sandbox.remote.client import RemoteProvider
from paddock.sandbox.remote.ray_lister import LABEL
from paddock.sandbox.remote.ray_nodes import RayNodes

SCRIPTED = Path(__file__).parent / "scripted_ray"
CLIENT: dict[str, Any] = {"node_health_s": 2.0, "node_poll_s": 0.1, "node_lookup_s": 0.1}


class ScriptedCluster:
    """What Ray says."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def has(self, *urls: str) -> None:
        """Has nodes that serve there, one that is dead, and one without a label."""
        labels = [(True, {LABEL: url.rpartition(":")[2]}) for url in urls]
        self.write(json.dumps([*labels, (False, {LABEL: "1"}), (True, {"ray.io/node-id": "x"})]))

    def write(self, text: str) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.replace(self._file)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedCluster:
    monkeypatch.syspath_prepend(str(SCRIPTED))
    monkeypatch.setenv("PYTHONPATH", str(SCRIPTED))
    monkeypatch.setenv("PADDOCK_TEST_RAY", str(tmp_path / "nodes.json"))
    return ScriptedCluster(tmp_path / "nodes.json")


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[RemoteProvider]:
    client = RemoteProvider(SandboxSettings(nodes="ray", **CLIENT), token=TOKEN)
    yield client
    await client.close()
    assert not listers()


@pytest.fixture
async def finder(cluster: ScriptedCluster) -> AsyncIterator[RayNodes]:
    finder = RayNodes()
    yield finder
    await finder.close()


async def created(provider: Provider, image: str) -> str:
    return (await provider.create(SandboxSpec(image=image), request_id=uuid.uuid4().hex)).sandbox_id


async def out(provider: Provider, sandbox_id: str, script: str) -> bytes:
    request = ExecRequest(argv=["sh", "-c", script], timeout_s=30)
    return bytes((await provider.exec(sandbox_id, request, request_id=uuid.uuid4().hex)).stdout)


def listers() -> list[str]:
    """What asks Ray for this process."""
    commands = (" ".join(child.cmdline()) for child in psutil.Process().children())
    return [command for command in commands if "ray_lister" in command]


def live(node: NodeFixture) -> set[str]:
    return {handle.sandbox_id for handle in node.provider.live()}


async def leases(node: NodeFixture) -> int:
    async with aiohttp.ClientSession(headers=bearer(TOKEN)) as session, session.get(node.url + "/status") as reply:
        return int((await reply.json())["leases"])


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_node_that_joins_is_used_and_one_that_leaves_keeps_what_lives_there(
    cluster: ScriptedCluster, home: Path, homes: Path, image: str, serve: Serve, client: RemoteProvider
) -> None:
    first, second = await serve(home), await serve(home)
    cluster.has(first.url)
    kept = await created(client, image)
    cluster.has(second.url)
    assert live(first) == {kept}
    there: list[str] = []
    async with asyncio.timeout(60):
        while not there or there[-1] not in live(second):
            there.append(await created(client, image))
    assert {await created(client, image) for _ in range(3)} <= live(second)
    assert await out(client, kept, "echo here") == b"here\n"
    for sandbox_id in (kept, *there):
        await client.destroy(sandbox_id)
    await until(lambda: not live(first))
    assert len(live(second)) == 3


@pytest.mark.slow
@pytest.mark.sandbox
async def test_a_node_that_has_left_is_let_go_of_with_the_last_sandbox_there(
    cluster: ScriptedCluster, home: Path, image: str, serve: Serve, client: RemoteProvider
) -> None:
    node = await serve(home)
    cluster.has(node.url)
    sandbox_id = await created(client, image)
    cluster.has()
    await until(lambda: not client._pool.placement.nodes)  # nobody is told of it
    assert await out(client, sandbox_id, "echo here") == b"here\n"
    assert await leases(node) == 1
    await client.destroy(sandbox_id)
    async with asyncio.timeout(60):
        while await leases(node):
            await asyncio.sleep(0.05)
    cluster.has(node.url)
    assert await created(client, image) in live(node)


@pytest.mark.slow
async def test_without_a_node_one_is_waited_for_and_then_the_label_is_named(cluster: ScriptedCluster) -> None:
    cluster.has()
    client = RemoteProvider(SandboxSettings(nodes="ray", **CLIENT, answer_margin_s=0.3), token=TOKEN)
    with pytest.raises(SandboxError, match=f"--labels {LABEL}=PORT") as lost:
        await created(client, "any")
    assert (lost.value.kind, lost.value.retryable) == ("no_nodes", True)
    assert LABEL in str(await client.why_not_ready())
    await client.close()


async def test_a_node_that_comes_while_it_is_waited_for_is_used(cluster: ScriptedCluster) -> None:
    cluster.has()
    client = RemoteProvider(SandboxSettings(nodes="ray", **CLIENT, answer_margin_s=20.0), token=TOKEN)
    asked = asyncio.ensure_future(client.why_not_ready())
    await asyncio.sleep(0.5)
    assert not asked.done()
    cluster.has("http://127.0.0.1:1")
    assert "127.0.0.1:1" in str(await asked)
    await client.close()


async def test_where_ray_can_not_be_asked_the_nodes_that_are_known_stay(
    cluster: ScriptedCluster, finder: RayNodes
) -> None:
    with pytest.raises(SandboxError, match=r"no cluster at auto; .*RAY_ADDRESS.*RAY_AUTH_TOKEN") as lost:
        await finder.find()
    assert lost.value.kind == "ray_unreachable"
    cluster.has("http://h:8900")
    assert await finder.find() == ["http://127.0.0.1:8900"]
    cluster.write("die")
    with pytest.raises(SandboxError, match="has ended"):
        await finder.find()
    cluster.has("http://h:8901")
    assert await finder.find() == ["http://127.0.0.1:8901"]
    client = RemoteProvider(SandboxSettings(nodes="ray", **CLIENT, answer_margin_s=0.3), token=TOKEN)
    await until(lambda: client._pool.placement.nodes)  # the node does not answer
    cluster.write("die")
    await asyncio.sleep(1)
    assert "127.0.0.1:8901" in str(await client.why_not_ready())
    await client.close()


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("8900", ["http://127.0.0.1:8900"]),
        ("https-8900", ["https://127.0.0.1:8900"]),
        ("yes", []),
        ("0", []),
        ("65536", []),
        ("http-1", []),
    ],
)
async def test_a_label_is_a_port_or_no_node(
    cluster: ScriptedCluster, finder: RayNodes, value: str, urls: list[str]
) -> None:
    cluster.write(json.dumps([(True, {LABEL: value})]))
    assert await finder.find() == urls


async def test_ray_is_silent_too_long(
    cluster: ScriptedCluster, finder: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_nodes, "ANSWER_TIMEOUT_S", 0.5)
    os.mkfifo(tmp_path / "nodes.json")
    with pytest.raises(SandboxError, match=r"no answer within 0.5 s"):
        await finder.find()
    assert not listers()


@pytest.mark.slow
async def test_what_asks_ray_ends_with_the_process_that_uses_it(cluster: ScriptedCluster) -> None:
    cluster.has()
    program = (
        "import asyncio, time\nfrom paddock.sandbox.remote.ray_nodes import RayNodes\n"
        "async def ask():\n    finder = RayNodes()\n    await finder.find()\n    print('asked', flush=True)\n"
        "    time.sleep(60)\nasyncio.run(ask())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asked\n"
    (lister,) = psutil.Process(process.pid).children()
    process.kill()
    await process.wait()
    with suppress(psutil.NoSuchProcess):
        lister.wait(20)


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed here")
async def test_without_ray_the_settings_are_wrong() -> None:
    with pytest.raises(ConfigError, match="pip install") as missing:
        RemoteProvider(SandboxSettings(nodes="ray"), token=TOKEN)
    assert missing.value.kind == "ray_missing"


def test_the_command_shows_the_nodes_of_the_cluster(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.has("http://127.0.0.1:1")
    assert main(["sandbox", "nodes", "ray"]) == 1
    assert "http://127.0.0.1:1: " in capsys.readouterr().out
    cluster.has()
    assert main(["sandbox", "nodes", "ray"]) == 1
    assert LABEL in capsys.readouterr().err
