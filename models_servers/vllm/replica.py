"""One vLLM server over its life: brought up, watched, replaced when it dies.

Ready   it answers `/health` and has sampled: a server may be up and die at its first request.
Dead    its process ended; it refuses connections; `/health` is not 200, or is not answered `health_failures` times in
        a row: after a death of the engine it may hang. One of our own also where it gives no token for
        `launch.stall_timeout_s` (`progress_watch`). Calls that run on a dead server fail at once.
Back    a launched one is started again, with waits that double, at most `max_restarts` times in all, then it is lost.
        A running one of others is checked again for as long as we run.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any, Literal, Self, TypeVar

import aiohttp

from paddock.errors import BugError, InfraError, PaddockError
from paddock.models_servers.vllm.client import VllmClient
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.traits import Traits, find_traits, weight_version, world_size
from paddock.processes import restart_wait_s
from paddock.server.upstream_failures import UpstreamError
from paddock.server.vllm.launch_settings import Device
from paddock.server.vllm.processes import VllmProcess
from paddock.types import JsonObject

PROBE_FACTOR = 6.0
"""A first generation may take that many times as long as a health check."""
T = TypeVar("T")
_log = logging.getLogger(__name__)


class ReplicaCall:
    """One answer that a replica samples: waiting for it ends when its time is over or its server dies."""

    def __init__(self, replica: "Replica", deadline: float) -> None:
        """`deadline` is in the running loop's time."""
        self._replica = replica
        self._deadline = deadline
        self._error: Exception | None = None
        self._clock: asyncio.Timeout | None = None

    def __enter__(self) -> Self:
        self._replica.add_call(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._replica.remove_call(self)

    async def wait(self, work: Awaitable[T], limit_s: float = inf) -> T:
        """The result of `work`; TimeoutError where `limit_s` or the whole time is over before, UpstreamError where the
        server has died."""
        loop = asyncio.get_running_loop()
        deadline = min(self._deadline, loop.time() + limit_s)
        try:
            async with asyncio.timeout_at(deadline if deadline < inf else None) as self._clock:
                if self._error is not None:
                    self._clock.reschedule(loop.time())
                return await work
        except TimeoutError:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            self._clock = None

    def end(self, error: Exception) -> None:
        """End the wait with `error`: the server has died."""
        self._error = error
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time())


class Replica:
    """One vLLM server and its state; `on_change` is called after each change of it."""

    def __init__(
        self,
        name: str,
        config: VllmConfig,
        session: aiohttp.ClientSession,
        on_change: Callable[[], None],
        *,
        url: str | None = None,
        make_process: Callable[[], VllmProcess] | None = None,
        device: Device | None = None,
    ) -> None:
        """Either `url` of a running server, or `make_process` for one of our own. `device`: None: not known."""
        self.name = name
        self.state: Literal["down", "ready", "draining", "lost"] = "down"
        self.why = "it has not started"
        """Why it is not ready."""
        self.process: VllmProcess | None = None
        self._config = config
        self._session = session
        self._on_change = on_change
        self._url = url
        self._make_process = make_process
        self._device = device
        self._connection: tuple[VllmClient, Traits] | None = None
        self._calls: set[ReplicaCall] = set()
        self._suspected = asyncio.Event()
        self._idle = asyncio.Event()
        self._watch_task: asyncio.Task[None] | None = None
        self._replace_task: asyncio.Task[None] | None = None
        self._stopped = False
        self._restarts = 0

    @property
    def client(self) -> VllmClient:
        return self._connected[0]

    @property
    def traits(self) -> Traits:
        return self._connected[1]

    @property
    def was_ready(self) -> bool:
        """Whether `client` and `traits` are known."""
        return self._connection is not None

    async def start(self) -> None:
        """Start it: ready when this returns; raises what is wrong."""
        await self._connect()
        self.watch()

    def watch(self) -> None:
        """Watch it from now on, and bring it back when it is down."""
        self._watch_task = asyncio.create_task(self._watch())

    async def stop(self, why: str = "it was stopped") -> None:
        """Have done with it, and end what it has started; may be called again."""
        self._stopped = True
        await _cancel(self._replace_task)
        await _cancel(self._watch_task)
        if self.state != "lost":
            self._set_state("lost", why)
        await self._end_process()

    def drain(self, why: str) -> None:
        """Give it no new calls: who has started it says that it is being replaced."""
        if self.state == "ready":
            self._set_state("draining", why)

    def end_drain(self) -> None:
        """Give it calls again."""
        if self.state == "draining":
            self._set_state("ready", "")

    def suspect(self) -> None:
        """Check its health at once, because a call failed on it."""
        self._suspected.set()

    async def replace(self) -> None:
        """No new calls; when those that run here have ended, or `drain_s` is over, a launched one is started anew.
        Ready when it returns. Those of other model servers before it are not waited for: they ask again. While it is
        being replaced, whoever asks for it again waits for the same; a caller that does not wait any more changes
        nothing."""
        if self._stopped:
            raise InfraError(f"{self.name}: it was stopped", kind="stopping", retryable=False)
        if self._replace_task is None or self._replace_task.done():
            self._replace_task = asyncio.create_task(self._replace())
        await asyncio.shield(self._replace_task)

    async def _replace(self) -> None:
        await _cancel(self._watch_task)
        self._set_state("draining", "it is being replaced")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.drain_s):
                while self.running:
                    self._idle.clear()
                    await self._idle.wait()
        self._go_down("it is being replaced")
        try:
            await self._end_process()
            await self._connect()
        finally:
            self.watch()

    def place(self) -> JsonObject:
        """Name, URL and state, which ask it nothing."""
        url = self._url if self.process is None else self.process.url
        return {"name": self.name, "url": url, "state": self.state, "why": self.why}

    async def describe(self) -> JsonObject:
        """Name, URL and state; of a ready one also the label of its weights and the number of its workers. None is
        what is not known: the device of one that others started, weights where vLLM's routes for them are closed."""
        version = workers = None
        if self.state == "ready":
            with suppress(PaddockError):
                version = await weight_version(self.client, self._config.health_timeout_s)
                workers = await world_size(self.client, self._config.health_timeout_s)
        launch = self._config.launch
        return {
            **self.place(),
            "device": self._device,
            "weight_transfer": launch.weight_transfer if launch is not None else None,
            "weight_version": version,
            "world_size": workers,
        }

    async def control(self, method: str, call: str, body: JsonObject, timeout_s: float) -> JsonObject:
        """Pass a trainer's call on; while it is paused, that it gives no token says nothing."""
        watch = self.process.watch if self.process is not None else None
        if watch is not None:
            watch.begins(call, body)
        reply = await self.client.control(method, f"/{call}", body, timeout_s)
        if watch is not None:
            watch.ended(call)
        return reply

    def call(self, deadline: float) -> ReplicaCall:
        """Begin an answer that is sampled until the loop's time `deadline` at most; use it in a `with`."""
        return ReplicaCall(self, deadline)

    def add_call(self, call: ReplicaCall) -> None:
        """Register an answer that is being sampled; UpstreamError where the replica is dead."""
        if self.state not in ("ready", "draining"):
            raise self._death_error()
        self._calls.add(call)

    def remove_call(self, call: ReplicaCall) -> None:
        self._calls.discard(call)
        if not self._calls:
            self._idle.set()

    @property
    def running(self) -> int:
        """Answers that are being sampled."""
        return len(self._calls)

    @property
    def _connected(self) -> tuple[VllmClient, Traits]:
        if self._connection is None:
            raise BugError(f"{self.name}: was never ready", kind="not_started")
        return self._connection

    def _death_error(self) -> UpstreamError:
        return UpstreamError(f"{self.name} died: {self.why}", kind="upstream_connection")

    async def _connect(self) -> None:
        if self._make_process is not None:
            self.process = self._make_process()
            await self.process.start()
            client = VllmClient(self._session, self.process.url, self._config.key)
        else:
            assert self._url is not None  # one of both is given
            client = VllmClient(self._session, self._url, self._config.key)
            if not await client.is_well(self._config.health_timeout_s):
                raise UpstreamError(f"{self.name} says that it is not well", kind="upstream_status")
        timeout_s, experts = self._config.health_timeout_s * PROBE_FACTOR, self._config.routed_experts
        traits = await find_traits(client, self._config.model, timeout_s, routed_experts=experts)
        self._connection = client, traits
        self._suspected.clear()
        self._set_state("ready", "")

    async def _watch(self) -> None:
        while True:
            if self.state == "ready":
                self._go_down(await self._death())
                _log.warning("%s: %s", self.name, self.why)
            recover = self._reconnect if self._make_process is None else self._restart
            if not await self._try(recover):
                return

    async def _death(self) -> str:
        """Wait until it dies, and say how it did."""
        failures = 0
        while True:
            if self.process is not None and self.process.exited.done():
                return f"its process {self.process.exit_text}"
            if self.process is not None and self.process.stalled.done():
                return self.process.stalled.result()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.health_interval_s):
                    await self._until_check_is_due()
            self._suspected.clear()
            try:
                if not await self._is_well():
                    return "it says that it is not well"
                failures = 0
            except UpstreamError as error:
                failures += 1
                if error.kind != "upstream_timeout" or failures >= self._config.health_failures:
                    return error.message

    async def _is_well(self) -> bool:
        """Ask once more where the connection broke: a kept one may be closed just as it is used."""
        try:
            return await self.client.is_well(self._config.health_timeout_s)
        except UpstreamError as error:
            if error.kind != "upstream_connection":
                raise
            return await self.client.is_well(self._config.health_timeout_s)

    async def _until_check_is_due(self) -> None:
        """Wait for a reason to check its health before the next interval."""
        if self.process is None:
            await self._suspected.wait()
            return
        suspected = asyncio.ensure_future(self._suspected.wait())
        either: set[asyncio.Future[Any]] = {suspected, self.process.exited, self.process.stalled}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            suspected.cancel()

    async def _try(self, recover: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await recover()
        except PaddockError as error:
            if error.message != self.why:
                _log.warning("%s: is not back: %s", self.name, error.message)
            self._set_state("down", error.message)
            return True

    async def _reconnect(self) -> bool:
        await asyncio.sleep(self._config.health_interval_s)
        await self._connect()
        _log.warning("%s: is back", self.name)
        return True

    async def _restart(self) -> bool:
        settings = self._config.launch
        assert settings is not None  # there are processes to start
        await self._end_process()
        if self._restarts >= settings.max_restarts:
            self._set_state("lost", f"{self.why}; it was started again {self._restarts} times")
            _log.error("%s: given up: %s", self.name, self.why)
            return False
        self._restarts += 1
        await asyncio.sleep(restart_wait_s(self._restarts, settings.restart_wait_s))
        await self._connect()
        _log.warning("%s: is back, after restart %d of %d", self.name, self._restarts, settings.max_restarts)
        return True

    def _go_down(self, why: str) -> None:
        self._set_state("down", why)
        for call in list(self._calls):
            call.end(self._death_error())

    def _set_state(self, state: Literal["down", "ready", "draining", "lost"], why: str) -> None:
        self.state, self.why = state, why
        self._on_change()

    async def _end_process(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            await process.stop()


async def _cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end, whatever it raises."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
