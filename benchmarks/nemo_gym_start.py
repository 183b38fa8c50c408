"""Start times of one resources server of NeMo-Gym's: started by ours, and by its own entry file, which starts Ray.

Run     python benchmarks/nemo_gym_start.py [SERVER] [--repeats N]; PADDOCK_NEMO_GYM_PYTHON names an interpreter that
        has the package. Seconds until it answers, and processes and resident memory of its whole tree then.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from paddock.config.nemo_gym import package_folder
from paddock.resources_servers.nemo_gym import NemoGymServer
from paddock.resources_servers.nemo_gym.config import NemoGymConfig

LIMIT_S = 180.0


class StartCost(NamedTuple):
    """What one start took; `seconds` None: it ended, or did not answer in time."""

    seconds: float | None
    processes: int = 0
    resident_mib: float = 0.0

    def __str__(self) -> str:
        if self.seconds is None:
            return "did not start"
        return f"{self.seconds:.1f} s, {self.processes} processes, {self.resident_mib:.0f} MiB"


def cost_of(pid: int, seconds: float) -> StartCost:
    top = psutil.Process(pid)
    tree = [top, *top.children(recursive=True)]
    return StartCost(seconds, len(tree), sum(one.memory_info().rss for one in tree) / 2**20)


async def ours(server: str) -> StartCost:
    gym = NemoGymServer(NemoGymConfig(server=server), name="gym", peers={})
    started_at = time.monotonic()
    await gym.start()
    try:
        return cost_of(gym.pid, time.monotonic() - started_at)
    finally:
        await gym.stop()


def theirs(python: Path, folder: Path) -> StartCost:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    block = {"entrypoint": "app.py", "domain": "other", "host": "127.0.0.1", "port": port}
    config = {
        "head_server": {"host": "127.0.0.1", "port": 1},
        "dry_run": False,
        "gym": {"resources_servers": {folder.name: block}},
    }
    with tempfile.TemporaryDirectory(prefix="gym-", ignore_cleanup_errors=True) as scratch:
        named = {"NEMO_GYM_CONFIG_PATH": "gym", "NEMO_GYM_CONFIG_DICT": json.dumps(config)}
        env = {**os.environ, **named, "PYTHONPATH": ".", "TMPDIR": scratch}
        quiet = subprocess.DEVNULL
        started_at = time.monotonic()
        process = subprocess.Popen(
            [python, "app.py"], cwd=folder, env=env, stdout=quiet, stderr=quiet, start_new_session=True
        )
        try:
            while process.poll() is None and time.monotonic() < started_at + LIMIT_S:
                if socket.socket().connect_ex(("127.0.0.1", port)) == 0:
                    return cost_of(process.pid, time.monotonic() - started_at)
                time.sleep(0.05)
            return StartCost(None)
        finally:
            for one in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
                one.kill()
            process.send_signal(signal.SIGKILL)
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("server", nargs="?", default="example_session_state_mgmt")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    python = Path(os.environ["PADDOCK_NEMO_GYM_PYTHON"])
    package = package_folder(python)
    assert package is not None
    print(f"{args.server}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for _ in range(args.repeats):
        print(f"  ours:   {asyncio.run(ours(args.server))}", flush=True)
        print(f"  theirs: {theirs(python, package / 'resources_servers' / args.server)}", flush=True)


if __name__ == "__main__":
    main()
