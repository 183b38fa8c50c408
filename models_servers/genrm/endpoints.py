"""The endpoints of a judge: those of others, or vLLM servers of its own.

Turns   endpoints take turns; one that failed is skipped for a while, unless all are. One that is down gets no request.
Errors  UpstreamError `upstream_connection` while every server of its own is down; InfraError `replicas_lost`, not
        retryable, when none is started again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from paddock.errors import InfraError
from paddock.http.transport import make_session
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.server.upstream_exchange import EndpointUrl
from paddock.server.upstream_failures import UpstreamError
from paddock.server.vllm.launcher import Launcher
from paddock.server.vllm.restarting_vllm import RestartingVllm

PATH = "/chat/completions"


@dataclass(slots=True, eq=False)
class JudgeEndpoint:
    """One endpoint of a judge."""

    find_base_url: Callable[[], str | None]
    """Gives its current base URL; None: it is down."""
    skipped_until: float = 0.0
    """The loop's time until which it is skipped, after a failure."""
    last_error: str = ""
    """Message of its last failure; empty once it has answered."""
    _parsed: EndpointUrl | None = None
    _base: str = ""

    @property
    def url(self) -> EndpointUrl | None:
        """URL of its chat completions; None: it is down."""
        base = self.find_base_url()
        if base is None:
            return None
        if self._parsed is None or base != self._base:
            self._base, self._parsed = base, EndpointUrl(base + PATH)
        return self._parsed


class JudgeEndpoints:
    """All endpoints of one judge."""

    def __init__(self, config: GenrmModelConfig, *, name: str) -> None:
        self.all = [JudgeEndpoint(lambda url=url: url) for url in config.urls]  # type: ignore[misc]
        self._config = config
        self._name = name
        self._servers: list[RestartingVllm] = []
        self._launcher: Launcher | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Start servers of its own; they are all well when this returns."""
        launch = self._config.launch
        if launch is None:
            return
        self._session = session = make_session()
        self._launcher = launcher = await Launcher.make(self._config.served, launch, name=self._name)
        names = [f"{self._name}-{nth}" for nth in range(launch.replicas)]
        self._servers = [RestartingVllm(name, launcher.maker(nth, session), launch) for nth, name in enumerate(names)]
        self.all = [
            JudgeEndpoint(lambda server=server: server.url and f"{server.url}/v1")  # type: ignore[misc]
            for server in self._servers
        ]
        results = await asyncio.gather(*(server.start() for server in self._servers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """Stop servers of its own; may be called again, and after a failed start."""
        await asyncio.gather(*(server.stop() for server in self._servers))
        if self._launcher is not None:
            self._launcher.close()
        if self._session is not None:
            await self._session.close()

    @property
    def last_errors(self) -> str:
        """The failures of endpoints that have not answered since, in words; empty: there are none."""
        down = [f"{server.name} is down: {server.why}" for server in self._servers if server.url is None]
        return "; ".join([*down, *(endpoint.last_error for endpoint in self.all if endpoint.last_error)])

    @property
    def available_at(self) -> float:
        """The loop's time from which on an endpoint can get a request again."""
        return min(endpoint.skipped_until for endpoint in self.all)

    def next_endpoint(self) -> tuple[JudgeEndpoint, EndpointUrl]:
        """The endpoint whose turn it is, and the URL of its chat completions."""
        now = asyncio.get_running_loop().time()
        up = [(endpoint, url) for endpoint in self.all if (url := endpoint.url) is not None]
        if not up:
            lost = all(server.lost for server in self._servers)
            why = f"{self._name}: none of its servers is up: {self.last_errors}"
            if lost:
                raise InfraError(why, kind="replicas_lost", stage="model", retryable=False)
            raise UpstreamError(why, kind="upstream_connection")
        chosen = next((candidate for candidate in up if candidate[0].skipped_until <= now), None)
        chosen = chosen or min(up, key=lambda candidate: candidate[0].skipped_until)
        self.all.remove(chosen[0])
        self.all.append(chosen[0])
        return chosen
