"""Nodes of sandboxes on machines of their own (`machines`): each serves what a client elsewhere uses.

Errors  RuntimeError with what a node wrote where it does not come up.
"""

import subprocess
import sys
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import orjson

from paddock.http.access import bearer
from paddock.sandbox.images import ImageStore
from paddock.sandbox.settings import FIRST_UID, SandboxSettings
from paddock.testing.machines import Machine, MachineProcess
from paddock.testing.sandboxes import store_of
from paddock.types import JsonObject

PORT = 8900
STARTS = 3
"""The trial of a runtime has a bound that a busy machine may exceed."""
_UIDS = 20_000
"""User ids for each machine: they share the kernel, and so its limits by user, also with machines of other tests."""
_RANGES = 2300
"""Ranges of so many ids that there is room for."""


class NodeMachine:
    """A machine that serves its sandboxes; images go into `store` before."""

    def __init__(self, machine: Machine, token: str) -> None:
        self.machine = machine
        self.url = f"http://{machine.address}:{PORT}"
        self.store: ImageStore = store_of(machine.home)
        self._token = machine.disk / "token"
        self._token.write_text(token)
        self._token.chmod(0o600)
        self._log = machine.disk / "node.log"
        self.serving: MachineProcess | None = None

    def serve(self, *, admission: JsonObject | None = None, **settings: object) -> None:
        """Start to serve; returns when clients may come. `settings`: of its `sandbox` block."""
        number = int(IPv4Address(self.machine.address)) % _RANGES
        uids = {"first": FIRST_UID + number * _UIDS, "agents": _UIDS // 2, "gradings": _UIDS // 2}
        own = SandboxSettings.model_validate({"runtime": "bubblewrap", "uids": uids, **settings})
        file = self.machine.disk / "sandbox.yaml"
        # JSON is YAML too.
        tree = own.model_dump(mode="json", exclude={"home"}, exclude_unset=True)
        file.write_bytes(orjson.dumps({**tree, "admission": admission or {}}))
        command = [sys.executable, "-m", "paddock", "sandbox", "serve", "--settings", str(file)]
        address = ["--host", self.machine.address, "--port", str(PORT), "--token-file", str(self._token)]
        for _ in range(STARTS):
            with self._log.open("ab") as log:
                self.serving = self.machine.start([*command, *address], stdout=subprocess.PIPE, stderr=log)
            assert self.serving.stdout is not None
            if self.serving.stdout.readline() == f"{self.url}\n".encode():
                return
            self.serving.communicate()
        raise RuntimeError(f"{self.machine.name} serves no sandboxes: {_end(self._log)}")

    def n_sandboxes(self) -> int:
        """Sandboxes that live there, by what the node says."""
        headers = bearer(self._token.read_text())
        return int(httpx.get(f"{self.url}/status", headers=headers, timeout=30, trust_env=False).json()["sandboxes"])

    def programs(self) -> list[str]:
        """The command lines that run on the machine, of sandboxes and their keepers too."""
        lines = self.machine.run(["ps", "-e", "-ww", "-o", "args="]).splitlines()
        return [line.strip() for line in lines if not line.startswith(("ps -e", "bash -c", "sleep 1000"))]


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
