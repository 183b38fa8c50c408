"""The servers of a runtime in a process each.

Law     all are prepared before the first may serve. Callers reach them over HTTP through one client. However this
        process ends, and however they do, no process is left: see `process` and `child`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from paddock.errors import InfraError
from paddock.http import HttpPeer
from paddock.http.transport import make_client
from paddock.server.handover import Handover
from paddock.server.lifecycle import stop_each
from paddock.server.running import Runtime
from paddock.server.settings import ServeSettings
from paddock.server.sockets import Bound
from paddock.server.supervisor import Supervisor

KILL_S = 0.2
"""Seconds beyond the stop timeout in which killed processes are waited for."""


@asynccontextmanager
async def isolated(
    runtime: Runtime, bound: Mapping[str, Bound], settings: ServeSettings, token: str | None
) -> AsyncIterator[None]:
    """Fills the runtime's peers, and tells it when a server is given up."""
    urls = {name: at.url for name, at in bound.items()}
    config = runtime.config.to_yaml()
    client = make_client()
    supervisors = [
        Supervisor(_handover(name, config, at, urls, settings, token), at.sock, settings, runtime.fail)
        for name, at in bound.items()
    ]
    try:
        await _start_all(supervisors, settings.start_timeout_s)
        runtime.peers.update({name: HttpPeer(name, client, url, token=token) for name, url in urls.items()})
        yield
    finally:
        stops = {one.name: one.stop for one in supervisors}
        await stop_each(stops, stop_timeout_s=settings.stop_timeout_s + KILL_S, together=True)
        await client.aclose()


async def _start_all(supervisors: list[Supervisor], timeout_s: float) -> None:
    late = {one.name for one in supervisors}

    async def prepare(one: Supervisor) -> None:
        await one.prepare()
        late.discard(one.name)

    try:
        async with asyncio.timeout(timeout_s):
            async with asyncio.TaskGroup() as group:
                for supervisor in supervisors:
                    group.create_task(prepare(supervisor))
            async with asyncio.TaskGroup() as group:
                for supervisor in supervisors:
                    group.create_task(supervisor.go())
    except TimeoutError as error:
        names = ", ".join(sorted(late or {one.name for one in supervisors}))
        raise InfraError(f"not ready within {timeout_s:g} s: {names}", kind="start_timeout", retryable=False) from error
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


def _handover(
    name: str, config: str, at: Bound, urls: dict[str, str], settings: ServeSettings, token: str | None
) -> Handover:
    return Handover(
        name=name,
        config=config,
        listen_fd=at.sock.fileno(),
        peers=urls,
        token=token,
        path=sys.path,
        start_timeout_s=settings.start_timeout_s,
        stop_timeout_s=settings.stop_timeout_s,
    )
