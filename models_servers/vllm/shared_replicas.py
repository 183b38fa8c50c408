"""The vLLM servers of another model server, followed as it starts, restarts and replaces them.

Law     each of several model servers asks the same vLLMs by itself: it checks their health, and keeps a rollout to one
        of them, as for running servers. Which there are, and where, says the one that has started them
        (`GET /engines`): a vLLM that is started again has another port.
Time    asked every `health_interval_s`, and at once when one is down here.
Errors  those of `replicas`; InfraError where the other does not answer at the start. Later the vLLMs that are known are
        kept: they end with the server that has started them.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from paddock.errors import InfraError, PaddockError
from paddock.http.transport import make_session
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.replica import Replica
from paddock.models_servers.vllm.replicas import Replicas
from paddock.server.engine_client import EngineClient
from paddock.types import JsonObject

ENGINES_PATH = "/engines"
_log = logging.getLogger(__name__)


class SharedReplicas(Replicas):
    """The servers that another model server has started."""

    def __init__(self, config: VllmConfig, *, name: str) -> None:
        super().__init__(config, name=name)
        self._urls: dict[str, str] = {}
        """By name."""
        self._client: EngineClient | None = None
        self._follow_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """At least one is ready when this returns; InfraError where none is within `replica_wait_s`."""
        source = self._config.engines_of
        assert source is not None  # or there is nothing to follow
        self._session = make_session(max_connections=self._config.max_concurrency + 64)
        token = source.token.get_secret_value() if source.token is not None else None
        self._client = EngineClient(self._session, source.url, token)
        deadline = asyncio.get_running_loop().time() + self._config.replica_wait_s
        await self._update(await self._states())
        while not self._ready():
            if asyncio.get_running_loop().time() >= deadline:
                text = f"{self.name}: none of the vLLMs of {source.url} could be asked"
                raise InfraError(text, kind="replicas_down", stage="model")
            await asyncio.sleep(self._config.health_interval_s)
            await self._update(await self._states())
        self._follow_task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._follow_task is not None:
            self._follow_task.cancel()
            await asyncio.gather(self._follow_task, return_exceptions=True)
        await super().stop()

    async def _follow(self) -> None:
        said = ""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.health_interval_s):
                    await self._change.wait()
            try:
                await self._update(await self._states())
                said = ""
            except PaddockError as error:
                if error.message != said:
                    _log.warning("%s: where its vLLMs are: %s", self.name, error.message)
                said = error.message
                # The change that it was asked for may have come again: not in a tight loop.
                await asyncio.sleep(self._config.health_interval_s)

    async def _states(self) -> list[JsonObject]:
        assert self._client is not None  # this was started
        reply: Any = await self._client.get(ENGINES_PATH, self._config.health_timeout_s)
        engines = reply.get("engines") if isinstance(reply, dict) else None
        if not isinstance(engines, list):
            raise InfraError(f"{self.name}: {self._client.host} names no engines", kind="replicas_unknown")
        return engines

    async def _update(self, states: list[JsonObject]) -> None:
        known = {replica.name: replica for replica in self.all}
        await asyncio.gather(*(self._follow_one(known.get(str(state["name"])), state) for state in states))

    async def _follow_one(self, replica: Replica | None, state: JsonObject) -> None:
        name, url = str(state["name"]), state["url"]
        if state["state"] == "ready" and url != self._urls.get(name):
            await self._add(name, str(url), replica)
        elif replica is None:
            return
        elif state["state"] == "lost":
            await replica.stop(str(state["why"]))
        elif state["state"] in ("ready", "draining"):
            replica.drain(str(state["why"])) if state["state"] == "draining" else replica.end_drain()

    async def _add(self, name: str, url: str, before: Replica | None) -> None:
        """Have a server that was started, or started again, in the place of the one before it."""
        assert self._session is not None  # this was started
        replica = Replica(name, self._config, self._session, self._notify, url=url)
        try:
            await replica.start()
        except PaddockError as error:
            _log.warning("%s: can't be asked yet: %s", name, error.message)
            return
        self._urls[name] = url
        self.all = sorted([*(one for one in self.all if one is not before), replica], key=lambda one: one.name)
        if before is not None:
            await before.stop("it was started again")
        self._notify()
