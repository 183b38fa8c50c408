"""Workers on the nodes of a Ray cluster: each is a process beside an actor, which passes its messages on.

Places  an actor asks for one CPU, and Ray spreads them over the nodes that are there; where one is lost, the next is
        wherever there is room. Nothing but Ray's own calls goes between the machines, secrets too: no command line has
        them, and a worker's environment only what the driver's own has.
Law     a worker's process ends with its actor, and its actor with this process or its node. A node that is cut off
        may go on for a while: nothing that it says is heard any more.
Errors  ConfigError `ray_missing`, `ray_elsewhere`; InfraError `ray_unreachable`, `ray_start`, `no_place`.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from paddock.collect.jobs import WorkerMessage, WorkerSetup
from paddock.collect.restarts import WORKERS_LOST
from paddock.collect.worker_process import OpenLink, ProcessLink
from paddock.errors import ConfigError, InfraError

WINDOW = 64
"""Messages of a worker that are under way to the driver; then it waits: files of attempts are large."""
NO_PLACE = "no_place"
RAY_START = "ray_start"
PLACE_WAIT_S = 60.0
OPEN_S = 60.0
"""Seconds that an actor has to start its worker's process."""
PROBE_S = 10.0
"""Seconds to wait for a connection to a cluster's address."""
END_S = 10.0
"""Seconds beyond its grace that a worker's actor has to say how it ended; then it is killed."""


class WorkerHost:
    """The actor: starts a worker process on its node, and passes messages between it and the driver."""

    def __init__(self) -> None:
        self._link: ProcessLink | None = None

    async def open(self, name: str, setup: WorkerSetup) -> str:
        """Returns its node's address."""
        self._link = await ProcessLink.open(name, setup)
        return str(_ray().util.get_node_ip_address())

    async def send(self, message: WorkerMessage) -> None:
        await self._opened.send(message)

    async def messages(self) -> AsyncIterator[WorkerMessage]:
        """All that the worker says, until it is gone."""
        while (message := await self._opened.receive()) is not None:
            yield message

    async def end(self, grace_s: float) -> str:
        return await self._opened.end(grace_s)

    @property
    def _opened(self) -> ProcessLink:
        assert self._link is not None  # the driver opens it first
        return self._link


class RayLink:
    """The link to a worker on a node."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self.where: str | None = None
        self._messages: Any = None
        self._ended: asyncio.Task[str] | None = None

    async def open(self, name: str, setup: WorkerSetup) -> None:
        self.where = await self._actor.open.remote(name, setup)
        streaming = {"num_returns": "streaming", "_generator_backpressure_num_objects": WINDOW}
        self._messages = self._actor.messages.options(**streaming).remote()

    async def send(self, message: WorkerMessage) -> None:
        try:
            await self._actor.send.remote(message)
        except Exception as error:
            # Whether it arrived is not known, and its answer would be waited for without end: the worker is given up.
            with suppress(_ray().exceptions.RayError):
                _ray().kill(self._actor)
            raise ConnectionError(_reason(error)) from error

    async def receive(self) -> WorkerMessage | None:
        try:
            message: WorkerMessage = await (await anext(self._messages))
        except (StopAsyncIteration, _ray().exceptions.RayError):
            return None
        return message

    async def end(self, grace_s: float = 0.0) -> str:
        if self._ended is None:
            self._ended = asyncio.ensure_future(self._end(grace_s))
        return await asyncio.shield(self._ended)

    async def _end(self, grace_s: float) -> str:
        try:
            async with asyncio.timeout(grace_s + END_S):
                how: str = await self._actor.end.remote(grace_s)
        except (_ray().exceptions.RayError, TimeoutError) as error:
            how = f"was lost with its node or actor: {_reason(error)}"
        with suppress(_ray().exceptions.RayError):
            _ray().kill(self._actor)
        return how


@contextmanager
def connect(
    address: str, *, label: str | None = None, place_wait_s: float = PLACE_WAIT_S
) -> Iterator[tuple[str, OpenLink]]:
    """Connect to a cluster: this machine's address in it, and what starts a worker on it. A process that is part of it
    already stays so.

    label           `KEY=VALUE` of the nodes that may have workers; None: any.
    place_wait_s    seconds that a worker waits for a CPU; then its start fails with an InfraError `no_place`.
    """
    ray = _ray()
    joined = ray.is_initialized()
    if joined:
        _require_joined(address)
    else:
        _join(address)
    try:
        yield str(ray.util.get_node_ip_address()), partial(_open_link, label=label, place_wait_s=place_wait_s)
    finally:
        if not joined:
            ray.shutdown()


def _join(address: str) -> None:
    try:
        _probe(address)
        _ray().init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        message = f"Ray cluster {address}: {_reason(error)}; its token, if it has one, is RAY_AUTH_TOKEN"
        raise InfraError(message, kind="ray_unreachable", retryable=False) from error


def _probe(address: str) -> None:
    """OSError where nothing listens at HOST:PORT: Ray would try it for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), PROBE_S).close()


def _require_joined(address: str) -> None:
    """ConfigError where this process is part of another cluster."""
    ours = str(_ray().get_runtime_context().gcs_address)
    if address not in ("auto", ours):
        raise ConfigError(
            f"Ray cluster {address}: this process is part of {ours} already, and can't be part of two: use `auto`",
            kind="ray_elsewhere",
        )


def count_places(label: str | None) -> int:
    """How many workers the nodes that are there have CPUs for, others' work aside. Blocks."""
    key, _, value = (label or "").partition("=")
    try:
        rows = [row for row in _ray().nodes() if row["Alive"] and (label is None or row["Labels"].get(key) == value)]
    except Exception as error:
        text = f"the cluster does not name its nodes: {_reason(error)}"
        raise InfraError(text, kind=WORKERS_LOST, retryable=False) from error
    return sum(int(row["Resources"].get("CPU", 0)) for row in rows)


async def _open_link(name: str, setup: WorkerSetup, *, label: str | None, place_wait_s: float) -> RayLink:
    key, _, value = (label or "").partition("=")
    host = (
        _ray()
        .remote(WorkerHost)
        .options(
            num_cpus=1,
            scheduling_strategy="SPREAD",
            label_selector={key: value} if label is not None else None,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=setup.slots + 10,
        )
    )
    actor = host.remote()
    try:
        link = RayLink(actor)
        async with asyncio.timeout(place_wait_s):
            await actor.__ray_ready__.remote()
        async with asyncio.timeout(OPEN_S):
            await link.open(name, setup)
    except BaseException as error:
        # It may wait for a CPU that no node has.
        with suppress(_ray().exceptions.RayError):
            _ray().kill(actor)
        if isinstance(error, _ray().exceptions.RayError):
            raise InfraError(f"{name}: its actor did not start: {_reason(error)}", kind=RAY_START) from error
        if isinstance(error, TimeoutError):
            where = f" with the label {label}" if label is not None else ""
            text = f"{name}: no node{where} had a CPU for it within {place_wait_s:g} s, or did not answer"
            raise InfraError(text, kind=NO_PLACE, retryable=False) from error
        raise
    return link


def _ray() -> Any:
    # Before its import: it is to write of no use to its makers, and not of lost nodes to the command's output.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    try:
        import ray
    except ImportError as error:
        raise ConfigError("a Ray cluster needs ray: pip install 'paddock[train]'", kind="ray_missing") from error
    return ray


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
