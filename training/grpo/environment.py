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
from paddock.training.grpo.roles import ReplicaInfo
from paddock.types import JsonObject

REPLICAS_TIMEOUT_S = 30.0


class ServerEnvironment:
    """The running servers of one config. `model_server`: the instance whose engines are trained."""

    def __init__(self, runtime: Runtime, model_server: str, client: httpx.AsyncClient) -> None:
        self._runtime = runtime
        self._name = model_server
        self._client = client
        self._starts: dict[str, StartCounter] = {}

    @property
    def peers(self) -> Mapping[str, Peer]:
        return self._runtime.peers

    def require_running(self) -> None:
        """InfraError when a server was given up."""
        if self._runtime.failure is not None:
            raise self._runtime.failure

    async def replicas(self) -> list[ReplicaInfo]:
        """The engines that are healthy now. InfraError when the model server does not say."""
        replicas: list[ReplicaInfo] = []
        for state in await self._replica_states():
            name, url = str(state["name"]), str(state["url"])
            if state["state"] != "ready":
                continue
            n_starts = self._starts.setdefault(name, StartCounter()).count(url, state.get("weight_version"))
            replicas.append(ReplicaInfo(name, url, n_starts))
        return replicas

    async def _replica_states(self) -> list[JsonObject]:
        url = self._runtime.servers[self._name].url
        try:
            headers = bearer(self._runtime.token)
            answer = await self._client.get(f"{url}/replicas", headers=headers, timeout=REPLICAS_TIMEOUT_S)
            answer.raise_for_status()
            states: list[JsonObject] = answer.json()["replicas"]
        except (httpx.HTTPError, KeyError, ValueError) as error:
            raise InfraError(f"{self._name}: which engines it has: {error}", kind="replicas_unknown") from error
        return states


class StartCounter:
    """Counts the starts of one engine from what it shows: it has another port at each start, and the version of its
    weights is not a number until weights are sent to it. A version of None says nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._url = ""
        self._sent = False

    def count(self, url: str, version: object) -> int:
        """How often the engine was started, with what it shows now."""
        sent = self._sent if version is None else isinstance(version, str) and version.isdecimal()
        if url != self._url or (self._sent and not sent):
            self._count += 1
        self._url, self._sent = url, sent
        return self._count


@asynccontextmanager
async def open_environment(config: Config, model_server: str) -> AsyncIterator[ServerEnvironment]:
    """Start all agents of the config and the servers they reference; the model server listens."""
    if model_server not in config.instances:
        raise ConfigError(
            f"the environment has no model server `{model_server}`: its agents have to ask the model that is trained",
            kind="unknown_instance",
        )
    names = list(Router(config).agents)
    client = make_client()
    try:
        async with open_runtime(config, names=names) as runtime:
            yield ServerEnvironment(runtime, model_server, client)
    finally:
        await client.aclose()
