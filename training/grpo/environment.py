"""The servers of a run, opened as `paddock eval` opens them, and the engines behind its model server.

Law     what trains is what is evaluated: the same agents, resources servers and model server, from the same config.
        Servers end with the worker that opened them, however it ends.
Errors  those of `open_runtime` at the start; InfraError when the model server can't say which engines it has.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from paddock.collect.routing import Router
from paddock.config import Config
from paddock.errors import ConfigError, InfraError
from paddock.http import Peer
from paddock.http.access import bearer
from paddock.http.transport import make_client
from paddock.server.runtime import Runtime, open_runtime
from paddock.training.grpo.roles import Replica
from paddock.types import JsonObject

ASK_TIMEOUT_S = 30.0


class Environment:
    """Running servers of one config. `model_server`: the instance whose engines are trained."""

    def __init__(self, runtime: Runtime, model_server: str, client: httpx.AsyncClient) -> None:
        self._runtime = runtime
        self._name = model_server
        self._client = client
        self._starts: dict[str, Starts] = {}

    @property
    def peers(self) -> Mapping[str, Peer]:
        return self._runtime.peers

    def require_running(self) -> None:
        """InfraError when a server was given up."""
        if self._runtime.failure is not None:
            raise self._runtime.failure

    async def replicas(self) -> list[Replica]:
        """The engines that are well now."""
        found: list[Replica] = []
        for told in await self._ask():
            name, url = str(told["name"]), str(told["url"])
            if told["state"] != "ready":
                continue
            nth = self._starts.setdefault(name, Starts()).seen(url, told.get("weight_version"))
            found.append(Replica(name, url, nth))
        return found

    async def _ask(self) -> list[JsonObject]:
        url = self._runtime.servers[self._name].url
        try:
            headers = bearer(self._runtime.token)
            answer = await self._client.get(f"{url}/replicas", headers=headers, timeout=ASK_TIMEOUT_S)
            answer.raise_for_status()
            told: list[JsonObject] = answer.json()["replicas"]
        except (httpx.HTTPError, KeyError, ValueError) as error:
            raise InfraError(f"{self._name}: which engines it has: {error}", kind="replicas_unknown") from error
        return told


class Starts:
    """Counts the starts of one engine by what is seen of it: a port of its own at each start, and a version of its
    weights that is not a number until weights are sent to it; None, where it did not say, tells nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._url = ""
        self._sent = False

    def seen(self, url: str, version: object) -> int:
        sent = self._sent if version is None else isinstance(version, str) and version.isdecimal()
        if url != self._url or (self._sent and not sent):
            self._count += 1
        self._url, self._sent = url, sent
        return self._count


@asynccontextmanager
async def open_environment(config: Config, model_server: str) -> AsyncIterator[Environment]:
    """All agents of the config and what they reference; the model server listens."""
    if model_server not in config.instances:
        raise ConfigError(
            f"the environment has no model server `{model_server}`: its agents have to ask the model that is trained",
            kind="unknown_instance",
        )
    names = list(Router(config).agents)
    client = make_client()
    try:
        async with open_runtime(config, names=names) as runtime:
            yield Environment(runtime, model_server, client)
    finally:
        await client.aclose()
