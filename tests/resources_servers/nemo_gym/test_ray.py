"""Claims about the Ray of a server of NeMo-Gym's: how much of the machine it has, who reaches it, what it leaves."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

VARIABLE = "PADDOCK_NEMO_GYM_PYTHON"
FOLDER = Path(__file__).parent / "with_ray"
HOST = """
import asyncio, json, sys, tempfile
import httpx
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.resources_servers.nemo_gym.config import NemoGymConfig
from paddock.types.responses import make_response, message_item

async def main():
    config = NemoGymConfig(server="with_ray", folder=sys.argv[1], ray_cpus=1, ray_object_store_mib=100)
    server = NemoGymServer(config, name="gym", peers={})
    await server.start()
    body = {"responses_create_params": {"input": "x"}, "response": make_response([message_item("x")], {}, model="m")}
    async with httpx.AsyncClient(timeout=120) as client:
        reply = await client.post(f"{server.destination().url}/verify", json=body)
    print(json.dumps(reply.json()), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()

asyncio.run(main())
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not os.environ.get(VARIABLE), reason=f"{VARIABLE} names no interpreter"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a short name: Ray's sockets are in it."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_ray_is_small_on_loopback_and_ends_with_its_server(killed: bool, folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(FOLDER)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        started: list[psutil.Process] = []
        try:
            _check(process, started, killed=killed)
            assert not list(folder.glob("gym-*"))
        finally:
            process.kill()
            for one in started:
                if one.is_running():
                    one.kill()


def _check(process: "subprocess.Popen[bytes]", started: list[psutil.Process], *, killed: bool) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    verdict = json.loads(process.stdout.readline())
    started += psutil.Process(process.pid).children(recursive=True)
    assert verdict["reward"] == 1.0
    assert (verdict["resources"]["CPU"], verdict["resources"]["object_store_memory"]) == (1.0, 100 << 20)
    assert "raylet" in [one.name() for one in started]
    listening = [at.laddr.ip for one in started for at in one.net_connections() if at.status == "LISTEN"]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    if killed:
        process.kill()
    else:
        process.stdin.close()
    process.wait(30)
    assert not psutil.wait_procs(started, timeout=20.0)[1]
