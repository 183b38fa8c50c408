"""SWE rows for tests that train, and what of a run's sandboxes there is on this machine.

Images  built from released source distributions where they are not there yet; they stay below `PADDOCK_HOME`, else in
        /var/tmp.
Kill    of a sandbox: SIGKILL from outside to all its processes, as the kernel or a person may.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson
import psutil
import pytest

from paddock.config import find_file
from paddock.errors import PaddockError
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.build import build_image
from paddock.sandbox.owner import handle_of, owners, sandboxes
from paddock.sandbox.settings import HOME_VARIABLE
from paddock.types import JsonObject, Row

HOME = Path(os.environ.get(HOME_VARIABLE) or f"/var/tmp/paddock-tests-{os.geteuid()}")
SANDBOX: JsonObject = {"home": str(HOME), "runtime": "bubblewrap"}
ENVIRONMENT = "swe"
MODEL = "policy_model"


def built(*names: str) -> list[JsonObject]:
    """Rows of the demonstration whose instances have these in their names, in this order, with their images; the test
    is skipped where those can't be."""
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap on this machine")
    lines = find_file("resources_servers/swe/data/example.jsonl").read_bytes().splitlines()
    every: list[JsonObject] = [orjson.loads(line) for line in lines]
    rows = [next(row for row in every if name in row["instance_id"]) for name in names]
    HOME.mkdir(parents=True, exist_ok=True)
    store = ImageStore(HOME, payload_id=SandboxSettings().payload_id)
    for instance in (read(Row.from_wire(row)) for row in rows):
        assert instance.build is not None
        try:
            asyncio.run(build_image(store, instance.image, instance.build))
        except (PaddockError, OSError) as error:
            pytest.skip(f"the image of {instance.instance_id} can't be built here: {error}")
    return rows


def servers(agents: Mapping[str, JsonObject]) -> JsonObject:
    """An environment and agents with CodeAct, by name: what each of them has besides."""
    block: JsonObject = {
        "resources_server": {"type": "resources_servers", "name": ENVIRONMENT},
        "model_server": {"type": "models_servers", "name": MODEL},
        "harness": "codeact",
        "sandbox": SANDBOX,
        "limits": {"memory_mib": 512, "disk_mib": 1024},
        "admission": {"cores_per_sandbox": 0.1, "memory_per_sandbox_mib": 256},
    }
    named: JsonObject = {name: {"agents": {"swe": {**block, **own}}} for name, own in agents.items()}
    return {ENVIRONMENT: {"resources_servers": {"swe": {"sandbox": SANDBOX}}}, **named}


class LiveSandbox(NamedTuple):
    """The sandbox of a rollout that runs."""

    folder: Path
    instance: str

    def processes(self) -> list[psutil.Process]:
        """All of it: what runs inside, and what holds it."""
        return list(_in(self.folder))

    def hold(self) -> bool:
        """Its shells stop where they are; whether there were any."""
        return self._signal_shells(signal.SIGSTOP)

    def let_go(self) -> None:
        self._signal_shells(signal.SIGCONT)

    def kill(self) -> None:
        for process in self.processes():
            _signal(process, signal.SIGKILL)

    def _signal_shells(self, number: signal.Signals) -> bool:
        shells = [process for process in self.processes() if _name(process) == "bash"]
        for shell in shells:
            _signal(shell, number)
        return bool(shells)


def of_rollouts(pids: Collection[int]) -> list[LiveSandbox]:
    """Sandboxes in which agents of these processes work."""
    found = []
    for folder in left_of(pids):
        handle = handle_of(folder)
        if handle is not None and handle.spec.purpose == "agent" and "instance" in handle.spec.labels:
            found.append(LiveSandbox(folder, handle.spec.labels["instance"]))
    return found


def left_of(pids: Collection[int]) -> list[Path]:
    """Folders of all sandboxes that these processes own."""
    own = [owner for owner in owners(HOME) if int(owner.name.partition("-")[0].lstrip(".")) in pids]
    return [folder for owner in own for folder in sandboxes(owner)]


def _in(folder: Path) -> Iterator[psutil.Process]:
    """What holds its root file system together names the folder; the others are in its mount namespace."""
    named = [one for one in psutil.process_iter() if str(folder) in _read(one, "mountinfo")]
    inside = {_mounts(child) for one in named for child in _children(one)} - {""}
    yield from named
    yield from (one for one in psutil.process_iter() if one not in named and _mounts(one) in inside)


def _read(process: psutil.Process, name: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/{name}").read_text()
    return ""


def _mounts(process: psutil.Process) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{process.pid}/ns/mnt").readlink())
    return ""


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""
