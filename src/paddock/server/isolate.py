"""Servers of a runtime in a process each.

Law     all are prepared before the first may serve. Callers reach them over HTTP through one client. However this
        process ends, and however they do, no process is left: see `process` and `child`.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.errors import ConfigError, InfraError
from paddock.http import HttpPeer
from paddock.http.transport import make_client
from paddock.server.access import Access
from paddock.server.handover import Handover
from paddock.server.isolated_server import IsolatedServer
from paddock.server.lifecycle import common_settings, stop_each
from paddock.server.running_servers import Runtime
from paddock.server.settings import RequestLimits, ServeSettings
from paddock.server.sockets import Bound
from paddock.temporary import Hold, hold_existing, turns_root

KILL_S = 0.2
"""Seconds beyond the stop timeout in which killed processes are waited for."""


@asynccontextmanager
async def run_isolated(
    runtime: Runtime, names: Sequence[str], bound: Mapping[str, Bound], settings: ServeSettings, access: Access
) -> AsyncIterator[None]:
    """`bound`: they, and whatever they call. Fills the runtime's peers, and tells it when a server is given up."""
    urls = {name: server.url for name, server in runtime.servers.items() if server.url is not None}
    client = make_client()
    supervisors: list[IsolatedServer] = []
    for name in names:
        common = common_settings(runtime.config, name)
        own = settings.model_copy(
            update={
                "start_timeout_s": common.start_timeout_s or settings.start_timeout_s,
                "stop_timeout_s": common.stop_timeout_s or settings.stop_timeout_s,
            }
        )
        handover = _handover(name, runtime.config.to_yaml(), bound[name], urls, own, access, common.python)
        supervisors.append(IsolatedServer(handover, bound[name].sock, own, runtime.fail))
    holds: list[Hold | None] = []
    try:
        await _start_all(supervisors)
        # Turns of a server that dies are there for the one that takes its place.
        models = [name for name in names if runtime.config.instance(name).kind == "models_servers"]
        holds = [hold_existing(turns_root() / name) for name in models]
        runtime.peers.update({name: HttpPeer(name, client, urls[name], token=access.token) for name in names})
        yield
    finally:
        stops = {server.name: server.stop for server in supervisors}
        longest_s = max(server.stop_timeout_s for server in supervisors)
        await stop_each(stops, stop_timeout_s=longest_s + KILL_S, together=True)
        await client.aclose()
        for turns_hold in holds:
            if turns_hold is not None:
                turns_hold.release()


async def _start_all(supervisors: list[IsolatedServer]) -> None:
    timeout_s = max(server.start_timeout_s for server in supervisors)
    late = {server.name for server in supervisors}

    async def prepare(server: IsolatedServer) -> None:
        async with asyncio.timeout(server.start_timeout_s):
            await server.prepare()
        late.discard(server.name)

    try:
        async with asyncio.timeout(timeout_s):
            async with asyncio.TaskGroup() as group:
                for supervisor in supervisors:
                    group.create_task(prepare(supervisor))
            async with asyncio.TaskGroup() as group:
                for supervisor in supervisors:
                    group.create_task(supervisor.go())
    except TimeoutError as error:
        names = ", ".join(sorted(late or {server.name for server in supervisors}))
        raise InfraError(f"not ready within {timeout_s:g} s: {names}", kind="start_timeout", retryable=False) from error
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
        if isinstance(first, TimeoutError):
            raise InfraError(
                f"not ready in time: {', '.join(sorted(late))}", kind="start_timeout", retryable=False
            ) from None
        raise first from None


def _paths(python: Path | None) -> list[str]:
    """What a child finds its plugins by. Another interpreter has packages of its own, and ours are not for it."""
    if python is None:
        return sys.path
    ours = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    return [entry for entry in sys.path if not any(Path(entry).is_relative_to(prefix) for prefix in ours)]


def _interpreter(name: str, python: Path | None) -> str | None:
    if python is None:
        return None
    path = python.expanduser()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise ConfigError(f"{name}: python: {path} is no program; name an interpreter", kind="python_missing")
    return str(path)


def _handover(
    name: str,
    config: str,
    at: Bound,
    urls: dict[str, str],
    settings: ServeSettings,
    access: Access,
    python: Path | None,
) -> Handover:
    return Handover(
        name=name,
        config=config,
        listen_fd=at.sock.fileno(),
        peers=urls,
        token=access.token,
        token_is_made=access.made,
        python=_interpreter(name, python),
        path=_paths(python),
        start_timeout_s=settings.start_timeout_s,
        stop_timeout_s=settings.stop_timeout_s,
        requests=RequestLimits(max_body_mib=settings.max_body_mib, stall_timeout_s=settings.stall_timeout_s),
    )
