"""A store in a temporary home, a registry that fails on cue, and Debian's real one."""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest
from tests.support.images import ScriptedRegistry, scripted_registry

from paddock.ports import free_port
from paddock.sandbox.images import Backoff, ImageStore, RegistryOptions

CONFIG = """
version: 0.1
log: {level: error, formatter: text}
storage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}
http: {addr: "127.0.0.1:%d", secret: x}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def store(home: Path) -> ImageStore:
    return ImageStore(home, payload_id=59734)


@pytest.fixture
def options() -> RegistryOptions:
    """Impatient."""
    return RegistryOptions(backoff=Backoff(attempts=4, first_s=0.01, most_s=0.02), stall_s=5.0)


@pytest.fixture
def registry() -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        yield registry


@pytest.fixture(scope="session")
def docker_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real registry."""
    if shutil.which("docker-registry") is None:
        pytest.skip("no docker-registry on PATH: apt-get install docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    port = free_port()
    config = folder / "config.yml"
    config.write_text(CONFIG % (folder / "data", port))
    process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _wait(f"http://127.0.0.1:{port}/v2/", process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1].decode()
        try:
            opener.open(url, timeout=2).close()
            return
        except URLError:
            time.sleep(0.02)
    raise AssertionError("the registry did not start in 60 s")
