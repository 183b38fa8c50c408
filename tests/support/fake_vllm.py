"""An imitation of vLLM's command, which the normal interpreter runs, for tests of who starts one.

Serves  what `ScriptedVllm` does, after it has started an engine core that leaves the group and hears nothing.
Modes   `fail`: it ends at once; `never`: it is never well; `sick`: it is well and can't sample; `deaf`: it does not end
        when it is told to; `fragile`: it dies at its third generation; `fades`: after a second it is not well any more;
        `hangs`: the first that is started is well, and answers nothing after its third generation.
"""

from pathlib import Path

import tests.support.vllm

from paddock.server.vllm.launch_settings import LaunchSettings

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

hangs = mode == "hangs" and not os.path.exists(os.environ["FAKE_PIDS"] + ".hung")

def fault(nth):
    if hangs and nth > 2:
        open(os.environ["FAKE_PIDS"] + ".hung", "w").close()
        return "hang"
    if mode == "fragile" and nth > 1:
        os._exit(7)
    return "500" if mode == "sick" else None

async def main():
    key = os.environ.get("VLLM_API_KEY")
    async with scripted.ScriptedVllm(port=port, model=sys.argv[2], fault=fault, key=key) as served:
        if mode == "fades":
            await asyncio.sleep(1)
            served.well = "no"
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
        env["FAKE_SERVER"] = tests.support.vllm.__file__
        given = {"device": "cpu", "folder": self.folder / "logs", "env": env, "stop_timeout_s": 0.5, **fields}
        return LaunchSettings.model_validate(given)

    @property
    def pids(self) -> list[int]:
        """Process ids of all servers and their engine cores, so far."""
        return [int(pid) for pid in self._pids.read_text().split()] if self._pids.exists() else []
