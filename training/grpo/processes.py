"""The processes of a run, on Ray: each role is an actor of its own, called as if it were in this process.

Ray     a local one, started here and ended here: loopback only, no dashboard, no usage report, calls by token where
        this Ray knows tokens. It dies with the process that started it, however that one ends, its actors with it.
Law     a role is made in its own process, from what can be pickled. A PaddockError that it raises is raised here;
        anything else is a BugError. Calls to a process that died raise an InfraError; no role is restarted: its state
        is in the last checkpoint.
Logs    what a role's process writes is in `logs/<role>.log` of the run's folder.
Errors  ConfigError `ray_missing`; InfraError `ray_start`, `process_died`.
"""

import asyncio
import fcntl
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from paddock.errors import BugError, ConfigError, InfraError, PaddockError

OBJECT_STORE_BYTES = 200 << 20
"""Batches and groups pass through it; they are small, and what does not fit is written to a file."""
MAX_CALLS = 10_000
"""Most calls of one role at a time."""
START_ATTEMPTS = 4
STOP_TIMEOUT_S = 60.0
"""Time that a role has to end when it is stopped: its servers and engines end with it."""
_log = logging.getLogger(__name__)


class _CallResult(NamedTuple):
    value: Any
    error: PaddockError | None = None


class _RoleHost:
    """The Ray actor in a role's process: makes the role, and calls it."""

    def __init__(self, log: str, env: Mapping[str, str]) -> None:
        _write_to(Path(log))
        os.environ.update(env)
        self._role: Any = None

    async def make(self, make: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> _CallResult:
        async def made() -> int:
            self._role = await make(*args)
            return os.getpid()

        return await _call_result(made())

    async def call(self, name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> _CallResult:
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

    def __init__(self, name: str, log: Path, actor: Any) -> None:
        self.name = name
        self.pid = 0
        """The id of its process; 0 before `make`."""
        self._log = log
        self._actor = actor

    async def make(self, make: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.pid = await self._wait(self._actor.make.remote(make, args))

    async def call(self, name: str, *args: Any, **options: Any) -> Any:
        return await self._wait(self._actor.call.remote(name, args, options))

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
            raise InfraError(
                f"the process of {self.name} died: {self._log_end()}", kind="process_died", retryable=False
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


class RoleProcesses:
    """Starts the processes of roles, and ends them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._roles: list[RoleProcess] = []

    def start(self, name: str, *, env: Mapping[str, str] | None = None) -> RoleProcess:
        """Start a process for a role, which `make` then makes. `env`: set over this process's environment."""
        import ray

        self._logs.mkdir(parents=True, exist_ok=True)
        log = (self._logs / f"{name}.log").resolve()
        host = ray.remote(_RoleHost).options(num_cpus=0, max_concurrency=MAX_CALLS, max_restarts=0, max_task_retries=0)
        role = RoleProcess(name, log, host.remote(str(log), dict(env or {})))
        self._roles.append(role)
        return role

    async def end(self) -> None:
        """End all roles at once."""
        await asyncio.gather(*(role.end() for role in self._roles))
        self._roles.clear()


@contextmanager
def local_ray(logs: Path) -> Iterator[RoleProcesses]:
    """A local Ray for the time of a run."""
    # Before its import: it reads them there.
    os.environ.update({**_ENV, "RAY_AUTH_TOKEN": secrets.token_urlsafe(32)})
    try:
        import ray
    except ImportError as error:
        raise ConfigError("training needs ray: pip install 'paddock[train]'", kind="ray_missing") from error
    with ray_folder(Path(tempfile.gettempdir())) as folder:
        try:
            _start(ray, folder)
            yield RoleProcesses(logs)
        finally:
            ray.shutdown()


@contextmanager
def ray_folder(home: Path) -> Iterator[Path]:
    """The folder of this Ray, with a short name because paths of sockets are bounded. Folders of processes that were
    killed are removed."""
    for attempts_left in home.glob(f"{_PREFIX}*"):
        pid = attempts_left.name.removeprefix(_PREFIX).partition("-")[0]
        # Process ids are used again, in containers soon: a folder with ours is not of this process.
        if pid.isdecimal() and (int(pid) == os.getpid() or not psutil.pid_exists(int(pid))):
            _remove_stale(attempts_left)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=home))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_stale(folder: Path) -> None:
    """Remove a folder, unless it is in use by a process of that id elsewhere (in another container)."""
    with suppress(OSError):
        if folder.stat().st_uid != os.geteuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


_PREFIX = "paddock-ray-"
_LOCK = "driver.lock"
"""Held while its Ray is in use."""
_ENV = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    # A role's own settings decide which devices it sees.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Its name is history: without clusters, a Ray listens on loopback alone.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def _start(ray: Any, folder: Path) -> None:
    """Start Ray, in several tries: it gives its own start half a minute, which is too short on a loaded machine."""
    for attempts_left in reversed(range(START_ATTEMPTS)):
        try:
            ray.init(
                address="local",
                num_cpus=1,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder),
            )
            return
        except Exception as error:
            ray.shutdown()
            if not attempts_left:
                raise InfraError(f"Ray did not start: {error}", kind="ray_start", retryable=False) from error
