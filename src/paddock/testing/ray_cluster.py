"""A Ray cluster on machines of their own (`machines`): one node each, started as `ray start` starts them anywhere.

Token   one for all nodes and drivers, in their environment. Drivers run on a machine: `RayCluster.driver`.
Errors  RuntimeError with what a node wrote where it does not start.
"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from paddock.testing.machines import Machine, MachineProcess, machines

PORT = 6379
STARTED = "Ray runtime started"
STARTS = 3
"""Ray gives a node half a minute to start, which a busy machine may exceed."""
_ENV = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node is given up after some 8 s without an answer, in place of a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
}


class RayCluster:
    """Its head is the first machine; labels are `node=m1`, `node=m2`, ..."""

    def __init__(self, nodes: Sequence[Machine], python: Path, *, cpus: int, object_store_mib: int) -> None:
        self.nodes = nodes
        self.address = f"{nodes[0].address}:{PORT}"
        self._python = python
        self._env = {**_ENV, "RAY_AUTH_TOKEN": token_urlsafe(32)}
        self._options = [f"--num-cpus={cpus}", f"--object-store-memory={object_store_mib << 20}"]

    def start(self, *nodes: Machine, labels: Mapping[str, str] | None = None) -> None:
        """Start Ray on these machines, all at once; returns when they are part of the cluster. `labels`: beside their
        own."""
        launched = [(node, self._launch(node, labels or {})) for node in nodes]
        for node, process in launched:
            tries = 1
            while not _has_started(node, process):
                if tries == STARTS:
                    raise RuntimeError(f"Ray did not start on {node.name}: {_log(node).read_text()[-2000:]}")
                process, tries = self._launch(node, labels or {}), tries + 1

    def _launch(self, node: Machine, labels: Mapping[str, str]) -> MachineProcess:
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        where = head if node is self.nodes[0] else [f"--address={self.address}"]
        ray = [str(self._python), "-m", "ray.scripts.scripts", "start", "--block", f"--node-ip-address={node.address}"]
        with _log(node).open("wb") as log:
            words = ",".join(f"{name}={value}" for name, value in {"node": node.name, **labels}.items())
            command = [*ray, *where, *self._options, f"--labels={words}"]
            return node.start(command, env=self._env, stdout=log, stderr=log)

    def driver(
        self, argv: Sequence[str], *, node: Machine | None = None, env: Mapping[str, str] | None = None, **options: Any
    ) -> MachineProcess:
        """Start the cluster's Python with these arguments, on the head's machine unless another is given; the
        cluster's address is in RAY_ADDRESS."""
        own = {**self._env, "RAY_ADDRESS": self.address, **(env or {})}
        return (node or self.nodes[0]).start([str(self._python), *argv], env=own, **options)


@contextmanager
def ray_cluster(count: int, python: Path, *, cpus: int = 2, object_store_mib: int = 100) -> Iterator[RayCluster]:
    """A cluster of that many nodes. `python`: an interpreter with Ray."""
    with machines(count) as nodes:
        cluster = RayCluster(nodes, python, cpus=cpus, object_store_mib=object_store_mib)
        cluster.start(nodes[0])
        cluster.start(*nodes[1:])
        yield cluster


def _has_started(node: Machine, process: MachineProcess) -> bool:
    """Whether a node is there; waits until it is, or has given up."""
    while STARTED not in _log(node).read_text(errors="replace"):
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            return False
    return True


def _log(node: Machine) -> Path:
    return node.disk / "ray.log"
