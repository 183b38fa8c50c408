"""An imitation of vLLM's command, which the normal interpreter runs; and a real vLLM, where there is one."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import paddock.testing.vllm
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.models_servers.vllm.launch import LaunchSettings

ROOT = Path(__file__).resolve().parents[3]

_MAIN = """
import asyncio, os, signal, subprocess, sys
mode = os.environ.get("FAKE_MODE", "")
port = int(sys.argv[sys.argv.index("--port") + 1])
print("engine core starts, arguments:", *sys.argv[1:], flush=True)
if mode == "fail":
    sys.exit("ValueError: no such model")
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
# An engine core that left the group and does not care for anybody.
core = [sys.executable, "-S", "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"]
pid = subprocess.Popen(core, start_new_session=True).pid
with open(os.environ["FAKE_PIDS"], "a") as pids:
    pids.write(f"{os.getpid()} {pid}\\n")
if mode == "never":
    signal.pause()

import importlib.util

# The file alone: the rest of the package takes a second to import.
spec = importlib.util.spec_from_file_location("scripted", os.environ["FAKE_SERVER"])
scripted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scripted)

def fault(nth):
    if mode == "fragile" and nth > 1:
        os._exit(7)
    return "500" if mode == "sick" else None

async def main():
    async with scripted.ScriptedVllm(port=port, model=sys.argv[2], fault=fault, key=os.environ.get("VLLM_API_KEY")):
        await asyncio.Event().wait()

asyncio.run(main())
"""


class FakeVllm:
    """Settings that start it, and what it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pids = folder / "pids"
        package = folder / "path" / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True)
        for parent in (package, *list(package.parents)[:2]):
            (parent / "__init__.py").touch()
        (package / "api_server.py").write_text(_MAIN)

    def settings(self, mode: str = "", **fields: object) -> LaunchSettings:
        env = {"PYTHONPATH": str(self.folder / "path"), "FAKE_MODE": mode, "FAKE_PIDS": str(self._pids)}
        env["FAKE_SERVER"] = paddock.testing.vllm.__file__
        given = {"device": "cpu", "folder": self.folder / "logs", "env": env, "stop_timeout_s": 0.5, **fields}
        return LaunchSettings.model_validate(given)

    @property
    def pids(self) -> list[int]:
        """Of all servers and their engine cores, so far."""
        return [int(pid) for pid in self._pids.read_text().split()] if self._pids.exists() else []


@pytest.fixture
def fake_vllm(tmp_path: Path) -> FakeVllm:
    return FakeVllm(tmp_path)


class SmallVllm:
    """A random model, and vLLM that serves it."""

    def __init__(self, folder: Path, python: str) -> None:
        self.python = python
        """Interpreter of the environment that has vLLM."""
        self.model = folder / "model"
        self.env = {**os.environ, "HF_HUB_OFFLINE": "1"}
        self._logs = folder / "logs"
        command = [python, str(ROOT / "scripts" / "tiny_model.py"), str(self.model), "--steps", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=self.env)
        assert done.returncode == 0, done.stderr

    @asynccontextmanager
    async def engine(self, **launch: object) -> AsyncIterator[VllmEngine]:
        """Started; gone at the end."""
        limits = {"kv_cache_gib": 1, "max_model_len": 4096, "max_num_seqs": 32}
        cheap = {"dtype": "float32", "enforce_eager": True, "python": self.python, "folder": self._logs}
        config = VllmConfig.model_validate(
            {
                "model": str(self.model),
                "launch": {**limits, **cheap, **launch},
                "api_key": "geheim",
                "health_interval_s": 0.5,
                "health_timeout_s": 30,
                "first_retry_s": 0.1,
            }
        )
        made = VllmEngine(config, name="policy")
        try:
            await made.start()
            yield made
        finally:
            await made.stop()


@pytest.fixture(scope="module")
def small_vllm(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> SmallVllm:
    return SmallVllm(tmp_path_factory.mktemp("vllm"), vllm_python)
