"""Where a judge is asked: endpoints of others, or vLLM servers of its own.

Turns   places take turns; one that failed is passed over while it rests, unless all do. One that is down is not asked.
Errors  UpstreamError `upstream_connection` while every server of its own is down; InfraError `replicas_lost`, not
        retryable, when none is started again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import httpx

from paddock.errors import InfraError
from paddock.http.transport import make_session
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.server.upstream_failures import UpstreamError
from paddock.server.vllm.launcher import Launcher
from paddock.server.vllm.restarting_vllm import RestartingVllm

PATH = "/chat/completions"


@dataclass(slots=True, eq=False)
class JudgeEndpoint:
    """One of them."""

    find: Callable[[], str | None]
    """Its base URL now; None: it is down."""
    rests_until: float = 0.0
    """The loop's time from which on it is asked like the others."""
    why: str = ""
    """Its last failure; empty since it answered."""
    _parsed: httpx.URL | None = None
    _base: str = ""

    @property
    def url(self) -> httpx.URL | None:
        """Of its chat completions."""
        base = self.find()
        if base is None:
            return None
        if self._parsed is None or base != self._base:
            self._base, self._parsed = base, httpx.URL(base + PATH)
        return self._parsed


class JudgeEndpoints:
    """All of one judge."""

    def __init__(self, config: GenrmModelConfig, *, name: str) -> None:
        self.all = [JudgeEndpoint(lambda url=url: url) for url in config.urls]  # type: ignore[misc]
        self._config = config
        self._name = name
        self._kept: list[RestartingVllm] = []
        self._launcher: Launcher | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Servers of its own are all well when it returns."""
        launch = self._config.launch
        if launch is None:
            return
        self._session = session = make_session()
        self._launcher = launcher = await Launcher.make(self._config.served, launch, name=self._name)
        names = [f"{self._name}-{nth}" for nth in range(launch.replicas)]
        self._kept = [RestartingVllm(name, launcher.maker(nth, session), launch) for nth, name in enumerate(names)]
        self.all = [JudgeEndpoint(lambda kept=kept: kept.url and f"{kept.url}/v1") for kept in self._kept]  # type: ignore[misc]
        results = await asyncio.gather(*(kept.start() for kept in self._kept), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """Again, and after a failed start: nothing is left either."""
        await asyncio.gather(*(kept.stop() for kept in self._kept))
        if self._launcher is not None:
            self._launcher.close()
        if self._session is not None:
            await self._session.close()

    @property
    def trouble(self) -> str:
        """What they failed with since they last answered; empty: nothing."""
        down = [f"{kept.name} is down: {kept.why}" for kept in self._kept if kept.url is None]
        return "; ".join([*down, *(place.why for place in self.all if place.why)])

    @property
    def rested_at(self) -> float:
        """The loop's time at which one can be asked again."""
        return min(place.rests_until for place in self.all)

    def turn(self) -> tuple[JudgeEndpoint, httpx.URL]:
        """The one whose turn it is, and where its chat completions are."""
        now = asyncio.get_running_loop().time()
        up = [(place, url) for place in self.all if (url := place.url) is not None]
        if not up:
            lost = all(kept.lost for kept in self._kept)
            why = f"{self._name}: none of its servers is up: {self.trouble}"
            if lost:
                raise InfraError(why, kind="replicas_lost", stage="model", retryable=False)
            raise UpstreamError(why, kind="upstream_connection")
        found = next((each for each in up if each[0].rests_until <= now), None)
        found = found or min(up, key=lambda each: each[0].rests_until)
        self.all.remove(found[0])
        self.all.append(found[0])
        return found
