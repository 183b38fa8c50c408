"""Claims about who may call `paddock serve` on loopback: its own user from curl and Python, no other user, no page."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.sampling import few
from tests.support.processes import CommandProcess, running

pytestmark = [
    pytest.mark.cli,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl"),
]
CONFIG = "cue: {resources_servers: {'paddock.testing.servers:CueServer': {}}}\n"
BODY = '{"responses_create_params": {"input": "hi"}, "cue": "answer", "response": {"output": []}}'
JSON = ("-H", "content-type: application/json")
OTHER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
PYTHON = """
import sys, urllib.request, paddock.http
url = sys.argv[1]
headers = {"content-type": "application/json", **paddock.http.headers_for(url)}
print(urllib.request.urlopen(urllib.request.Request(url + "/verify", sys.argv[2].encode(), headers)).read().decode())
"""


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    """With a cache of the user's own, in a place that all can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield {"XDG_CACHE_HOME": folder, "PADDOCK_TOKEN": ""}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "servers.yaml"
    path.write_text(CONFIG)
    return path


def verify(url: str, *words: str, before: tuple[str, ...] = ()) -> tuple[str, str]:
    """The status, and what else curl printed."""
    curl = [*before, "curl", "-sS", "--noproxy", "*", "-w", "\n%{http_code}", "-d", BODY, *words, f"{url}/verify"]
    done = subprocess.run(curl, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    said, _, status = done.stdout.rpartition("\n")
    return status, said + done.stderr


def place_of(command: CommandProcess) -> tuple[str, Path]:
    """Where the server is, and the file that `serve` names."""
    file = command.line("  curl -H @").split()[2].removeprefix("@")
    return command.line("cue ").split()[-1], Path(file)


@pytest.mark.parametrize("isolate", few([False, True], [True]), ids=["one-process", "isolated"])
def test_its_user_calls_it_as_serve_says_and_a_page_does_not(config: Path, env: dict[str, str], isolate: bool) -> None:
    with running("paddock", "serve", config, *(["--isolate"] if isolate else []), env=env) as command:
        url, file = place_of(command)
        assert command.line(f'paddock.http.headers_for("{url}")')
        own = ("-H", f"@{file}")
        assert verify(url, *own, *JSON)[0] == "200"
        assert verify(url, *JSON)[0] == "401"
        status, said = verify(url, *own, "-H", "content-type: text/plain")
        assert (status, "-H 'Content-Type: application/json'" in said) == ("415", True)
        assert verify(url, *own, *JSON, "-H", "origin: http://page.example")[0] == "403"
        words = [sys.executable, "-c", PYTHON, url, BODY]
        done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, check=True)
        assert '"reward":1.0' in done.stdout
        token = file.read_text().split()[-1]
        for process in (psutil.Process(command.pid), *command.family()):
            assert not any(token in text for text in [*process.cmdline(), *process.environ().values()])
        command.send(signal.SIGTERM)
        assert command.code() == 0
        assert token not in command.output()
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to be another user")
def test_another_user_can_neither_call_it_nor_read_the_token(config: Path, env: dict[str, str]) -> None:
    with running("paddock", "serve", config, env=env) as command:
        url, file = place_of(command)
        assert verify(url, *JSON, before=OTHER)[0] == "401"
        status, said = verify(url, *JSON, "-H", f"@{file}", before=OTHER)
        assert status != "200", said
        for path in (file, file.parent):
            looked = subprocess.run([*OTHER, "ls", "-l", path], capture_output=True, text=True, check=False, cwd="/")
            assert "Permission denied" in looked.stderr
        copied = subprocess.run([*OTHER, "cat", file], capture_output=True, text=True, check=False, cwd="/")
        assert (copied.stdout, "Permission denied" in copied.stderr) == ("", True)
