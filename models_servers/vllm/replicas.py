"""Several vLLM servers as one: each rollout keeps to one of them, because its prefix is in that one's cache.

Law     a rollout's server is chosen by its secret among those that are ready at its first call, and stays; when that
        one is down or is being replaced, the rollout moves. Nothing breaks by it: prompts are ids.
Bounds  `MAX_ROLLOUTS` rollouts are remembered; one that was forgotten is chosen for anew.
Errors  InfraError `replicas_down` when none was ready for `replica_wait_s`; `replicas_lost`, not retryable, when none
        can come back.
"""

import asyncio
import hashlib
from collections import OrderedDict
from itertools import count

import aiohttp
import httpx

from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.http.transport import make_session
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.replica import Replica
from paddock.server.vllm.launcher import Launcher
from paddock.types import JsonObject

MAX_ROLLOUTS = 100_000


class Replicas:
    """All servers of one config."""

    def __init__(self, config: VllmConfig, *, name: str) -> None:
        self.name = name
        self.all: list[Replica] = []
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._launcher: Launcher | None = None
        self._by_rollout: OrderedDict[str, Replica] = OrderedDict()
        self._turn = count()
        self._change = asyncio.Event()

    async def start(self) -> None:
        """Start all: launched ones are ready when this returns; of running ones at least one, others may come later."""
        self._session = session = make_session(max_connections=self._config.max_concurrency + 64)
        if self._config.launch is not None:
            launcher = await Launcher.make(self._config.served, self._config.launch, name=self.name)
            self._launcher = launcher
            self.all = [
                Replica(
                    f"{self.name}-{nth}",
                    self._config,
                    session,
                    self._notify,
                    make_process=launcher.maker(nth, session),
                    device=launcher.device,
                )
                for nth in range(self._config.launch.replicas)
            ]
            await _start_all(self.all)
        else:
            self.all = [
                Replica(httpx.URL(url).netloc.decode(), self._config, session, self._notify, url=url)
                for url in self._config.urls
            ]
            await _start_some(self.all)

    async def stop(self) -> None:
        """Stop all; may be called again, and after a failed start."""
        await asyncio.gather(*(replica.stop() for replica in self.all))
        if self._launcher is not None:
            self._launcher.close()
        if self._session is not None:
            await self._session.close()

    async def choose(self, rollout: str | None, wait_s: float) -> Replica:
        """The server for a call of `rollout`; waits for one where none is ready."""
        ready = self._ready()
        if not ready:
            ready = await self._wait(min(wait_s, self._config.replica_wait_s))
        if rollout is None:
            return ready[next(self._turn) % len(ready)]
        replica = self._by_rollout.get(rollout)
        if replica not in ready:
            replica = ready[_number(rollout) % len(ready)]
            self._by_rollout[rollout] = replica
        self._by_rollout.move_to_end(rollout)
        if len(self._by_rollout) > MAX_ROLLOUTS:
            self._by_rollout.popitem(last=False)
        return replica

    async def replace(self, name: str) -> None:
        """Drain one server and start it anew; see `Replica.replace`."""
        await self.named(name).replace()

    def named(self, name: str) -> Replica:
        for replica in self.all:
            if replica.name == name:
                return replica
        names = ", ".join(replica.name for replica in self.all)
        raise ConfigError(f"{self.name}: no replica {name!r}; there are {names}", kind="replica_unknown")

    async def describe(self) -> list[JsonObject]:
        """What a trainer has to know of each replica; see `Replica.describe`."""
        return list(await asyncio.gather(*(replica.describe() for replica in self.all)))

    @property
    def max_tokens(self) -> int | None:
        """Longest sequence that every server takes which was ever ready."""
        lengths = [replica.traits.max_tokens for replica in self.all if replica.was_ready]
        limits = [length for length in lengths if length is not None]
        return min(limits, default=None)

    def _ready(self) -> list[Replica]:
        return [replica for replica in self.all if replica.state == "ready"]

    async def _wait(self, wait_s: float) -> list[Replica]:
        try:
            async with asyncio.timeout(wait_s):
                while not (ready := self._ready()):
                    if all(replica.state == "lost" for replica in self.all):
                        raise InfraError(
                            f"{self.name}: no vLLM is left: {self._why()}",
                            kind="replicas_lost",
                            stage="model",
                            retryable=False,
                        )
                    await self._change.wait()
                return ready
        except TimeoutError as error:
            raise InfraError(
                f"{self.name}: no vLLM was well for {wait_s:.3g} s: {self._why()}", kind="replicas_down", stage="model"
            ) from error

    def _why(self) -> str:
        return "; ".join(f"{replica.name}: {replica.why}" for replica in self.all)

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


async def _start_all(replicas: list[Replica]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for replica in replicas:
                group.create_task(replica.start())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _start_some(replicas: list[Replica]) -> None:
    """Start at least one; the others are looked for from now on. A config that is wrong for one is wrong for all."""
    results = await asyncio.gather(*(replica.start() for replica in replicas), return_exceptions=True)
    failed = [error for error in results if isinstance(error, BaseException)]
    for error in failed:
        if isinstance(error, ConfigError) or not isinstance(error, PaddockError) or len(failed) == len(replicas):
            raise error
    for replica, result in zip(replicas, results, strict=True):
        if isinstance(result, PaddockError):
            replica.why = result.message
            replica.watch()


def _number(rollout: str) -> int:
    return int.from_bytes(hashlib.sha256(rollout.encode()).digest())
