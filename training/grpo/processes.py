"""The processes of a run, on Ray: each role is an actor of its own, called as if it were in this process.

Law     a role is made in its own process, from what can be pickled, on the node that it is placed on. A PaddockError
        that it raises is raised here; anything else is a BugError. Calls to a process that died raise an InfraError
        that names role and node; no role is restarted: its state is in the last checkpoint.
Logs    what a role's process writes is in `logs/<role>.log` of the run's folder; from another node it is sent there
        (`remote_logs`).
Errors  those of `ray_session`; InfraError `process_died`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from paddock.errors import BugError, InfraError, PaddockError
from paddock.ports import free_port
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.node_host import NodeHosts
from paddock.training.grpo.placement import ClusterNode, RoleNeed, RolePlace, RolePlacement
from paddock.training.grpo.ray_session import RaySession, Reservation, ray_session
from paddock.types import JsonObject

MAX_CALLS = 10_000
"""Most calls of one role at a time."""
STOP_TIMEOUT_S = 60.0
"""Time that a role has to end when it is stopped: its servers and engines end with it."""
_log = logging.getLogger(__name__)


class _CallResult(NamedTuple):
    value: Any
    error: PaddockError | None = None


class _RoleHost:
    """The Ray actor in a role's process: makes the role, and calls it."""

    def __init__(self, log: Path, host: Any, env: Mapping[str, str]) -> None:
        """`host`: keeps the log on this node until it is sent, in place of `log`; None: `log` is on this node."""
        import ray

        _write_to(log if host is None else ray.get(host.log_file.remote(log.name)))
        os.environ.update(env)
        self._role: Any = None

    async def make(self, make: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> _CallResult:
        async def made() -> int:
            self._role = await make(*args)
            return os.getpid()

        return await _call_result(made())

    async def free_port(self, address: str) -> _CallResult:
        return _CallResult(free_port(address))

    async def call(self, name: str, options: Mapping[str, Any], *args: Any) -> _CallResult:
        return await _call_result(getattr(self._role, name)(*args, **options))


async def _call_result(work: Awaitable[Any]) -> _CallResult:
    try:
        return _CallResult(await work)
    except PaddockError as error:
        return _CallResult(None, error)
    except Exception as error:  # noqa: BLE001 - the caller gets it, whatever it is
        _log.exception("unexpected")
        return _CallResult(None, BugError(f"{type(error).__name__}: {error}", kind=type(error).__name__))


def _write_to(log: Path) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr, force=True
    )


class RoleProcess:
    """A role in a process of its own; each call runs one of its coroutines."""

    def __init__(
        self, name: str, log: Path, actor: Any, hosts: NodeHosts | None = None, node: ClusterNode | None = None
    ):
        self.name = name
        self.pid = 0
        """The id of its process; 0 before `make`."""
        self._log = log
        self._actor = actor
        self._hosts = hosts
        self._node = node

    async def make(self, make: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.pid = await self._wait(self._actor.make.remote(make, args))

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        """`args`: values, or what `put` gave for them."""
        return await self._wait(self._actor.call.remote(name, options, *args))

    async def free_port(self, address: str) -> int:
        """A port on its node that nothing listens on."""
        port: int = await self._wait(self._actor.free_port.remote(address))
        return port

    async def end(self) -> None:
        """Stop the role, then kill its process whatever it does."""
        import ray

        with suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.call("stop")
        with suppress(Exception):
            ray.kill(self._actor)

    async def _wait(self, reference: Any) -> Any:
        import ray

        try:
            answer: _CallResult = await reference
        except asyncio.CancelledError:
            ray.cancel(reference)
            raise
        except ray.exceptions.RayError as error:
            if self._hosts is not None:
                await self._hosts.fetch_logs()
            where = f" on {self._node}" if self._node is not None else ""
            raise InfraError(
                f"the process of {self.name}{where} died: {self._log_end()}", kind="process_died", retryable=False
            ) from error
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _log_end(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{self._log} ends with: {lines[-1][:300]}" if lines else f"{self._log} is empty"


async def put(value: Any) -> Any:
    """A reference to the value in the shared memory of the nodes: calls of any number of roles read it there, its
    arrays without a copy. It lasts as long as something refers to it."""
    import ray

    return await asyncio.to_thread(ray.put, value)


class RoleProcesses:
    """Starts the processes of roles, and ends them."""

    def __init__(self, logs: Path, session: RaySession | None = None) -> None:
        self._logs = logs
        self._session = session
        self._hosts = NodeHosts(logs)
        self._roles: list[RoleProcess] = []
        self._reservation: Reservation | None = None
        self._bundles: dict[str, int] = {}

    async def place(self, needs: Sequence[RoleNeed], shared: Path | None = None) -> RolePlacement:
        """Place the roles on the nodes that are there, and reserve what they need. `shared`: a folder that nodes of the
        policy have to see as this process does (ConfigError)."""
        assert self._session is not None
        self._reservation = await self._session.reserve(needs)
        placement = self._reservation.placement
        self._bundles = {place.role: nth for nth, place in enumerate(placement.all)}
        away = {place.node.id: place.node for place in placement.all if place.node.id != self._session.own_node}
        await self._hosts.start(away.values())
        if shared is not None:
            of_policy = {place.node.id for place in placement.policy}
            await self._hosts.check_shared(shared, [node for key, node in away.items() if key in of_policy])
        return placement

    def start(self, name: str, place: RolePlace | None = None, *, env: Mapping[str, str] | None = None) -> RoleProcess:
        """Start a process for a role, which `make` then makes, where it was placed; None: anywhere. `env`: set over
        this process's environment."""
        import ray

        self._logs.mkdir(parents=True, exist_ok=True)
        log = (self._logs / f"{name}.log").resolve()
        node = place.node if place is not None else None
        options = self._options(place) if place is not None else {}
        actor = ray.remote(_RoleHost).options(
            num_cpus=0, max_concurrency=MAX_CALLS, max_restarts=0, max_task_retries=0, **options
        )
        host = self._hosts.get(node) if node is not None else None
        role = RoleProcess(name, log, actor.remote(log, host, dict(env or {})), self._hosts, node if host else None)
        self._roles.append(role)
        return role

    async def end(self) -> None:
        """End all roles at once."""
        await asyncio.gather(*(role.end() for role in self._roles))
        self._roles.clear()
        await self._hosts.end()
        if self._reservation is not None:
            self._reservation.release()
            self._reservation = None

    def ray_ranks(self, place: RolePlace) -> JsonObject:
        """Where the ranks of a vLLM run that is spread over nodes, as `launch.ray` says it."""
        import ray

        assert self._reservation is not None
        group = self._reservation.ranks[place.role].id.hex()
        return {"address": ray.get_runtime_context().gcs_address, "placement_group": group}

    def _options(self, place: RolePlace) -> dict[str, Any]:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        assert self._reservation is not None
        bundle = self._bundles[place.role]
        return {
            "num_gpus": place.gpus,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._reservation.roles, placement_group_bundle_index=bundle
            ),
        }


@contextmanager
def open_processes(logs: Path, settings: ClusterConfig) -> Iterator[RoleProcesses]:
    """The processes of a run, on its Ray."""
    with ray_session(settings) as session:
        yield RoleProcesses(logs, session)


@contextmanager
def local_ray(logs: Path) -> Iterator[RoleProcesses]:
    """Processes on a local Ray."""
    with open_processes(logs, ClusterConfig()) as processes:
        yield processes
