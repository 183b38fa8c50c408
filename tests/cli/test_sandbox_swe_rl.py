"""`paddock sandbox swe-rl`: the recipe's servers as a process, the URL for its client, its end."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from paddock.cli import main
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.tiny import tiny_image
from paddock.sandbox.owner import owners, sandboxes

VARIABLE = "SWE_EXEC_SERVER_URLS"
LEASE = {"instance_id": "a-1"}


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the payload's user can pass, unlike pytest's own folders."""
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    folder = Path(tempfile.mkdtemp(prefix="paddock-swe-rl-", dir="/var/tmp"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.cli
@pytest.mark.sandbox
async def test_it_serves_whoever_takes_the_printed_url_until_a_signal(
    home: Path, token_cache: Path, tmp_path: Path
) -> None:
    image = tiny_image(ImageStore(home, payload_id=SandboxSettings().payload_id))
    settings = tmp_path / "swe_rl.yaml"
    settings.write_text("sandbox: {runtime: bubblewrap}\nworkdir: /tmp\nscrub: false\n")
    command = [sys.executable, "-m", "paddock", "sandbox", "swe-rl", "--home", str(home), "--settings", str(settings)]
    env = {**os.environ, "XDG_CACHE_HOME": str(token_cache)}
    process = await asyncio.create_subprocess_exec(*command, "--port", "0", stdout=asyncio.subprocess.PIPE, env=env)
    assert process.stdout is not None
    await process.stdout.readline()
    export = (await process.stdout.readline()).decode()
    shell = await asyncio.create_subprocess_shell(
        f'{export}\nprintf "%s" "$SWE_ENV_SERVER_URL"', stdout=asyncio.subprocess.PIPE
    )
    url = (await shell.communicate())[0].decode()
    assert "paddock:" in url and "sed" not in url
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        answer = (await client.post("/allocate", json={"image": image, **LEASE})).json()
        assert answer["ok"], answer
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert not [folder for owner in owners(home) for folder in sandboxes(owner)]


def test_what_can_not_be_served_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    assert main(["sandbox", "swe-rl", "--host", "0.0.0.0"]) == 2
    assert "needs a token" in capsys.readouterr().err
    settings = tmp_path / "swe_rl.yaml"
    settings.write_text("max_sandbox: 3\n")
    assert main(["sandbox", "swe-rl", "--settings", str(settings)]) == 2
    assert "nearest: `max_sandboxes`" in capsys.readouterr().err


class ExecServer(BaseHTTPRequestHandler):
    """Answers as the recipe's exec server does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true, "running_containers": "0"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_exec_servers_of_the_recipe_are_no_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = HTTPServer(("127.0.0.1", 0), ExecServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}")
        assert main(["sandbox", "swe-rl"]) == 2
        assert "is to be a node of Paddock" in capsys.readouterr().err
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert main(["sandbox", "swe-rl"]) == 2
    assert "does not answer as one" in capsys.readouterr().err
