"""The servers of a run, opened as `paddock eval` opens them: the model server with its engines, and all others.

Law     what trains is what is evaluated: the same agents, resources servers and model server, from the same config.
        Agents beside the engines have a model server in their own process (`model_server.with_own_model_server`); on
        other machines they call that of the engines at its address, with the run's token. Servers end with the process
        that opened them, however it ends.
Errors  those of `open_runtime` at the start; InfraError when the model server can't say which engines it has.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from paddock.collect import EvalSettings
from paddock.collect.routing import Router
from paddock.config import Config
from paddock.errors import BugError, ConfigError
from paddock.http.transport import make_client
from paddock.rollouts.runner import RolloutRunner, open_runner
from paddock.server.runtime import Runtime, open_runtime
from paddock.server.vllm.weights.replicas import ReplicaInfo, ServerReplicas


class ModelAddress(NamedTuple):
    """Where the model server of a run listens, and the token it asks for."""

    url: str
    token: str


class EngineHost:
    """The model server whose engines are trained, in a process of its own on their machine."""

    def __init__(self, config: Config, name: str, host: str, token: str, role: str = "") -> None:
        """`host`: the address to listen on. `role`: before the names of engines, where there are several such hosts."""
        self._config = config
        self._name = name
        self._host = host
        self._token = token
        self._stack = AsyncExitStack()
        self._runtime: Runtime | None = None
        self._replicas = ServerReplicas(name, role)
        self._client = make_client()

    async def start(self) -> None:
        """Start the model server and its engines."""
        runtime = open_runtime(self._config, names=[self._name], host=self._host, token=self._token)
        self._runtime = await self._stack.enter_async_context(runtime)

    async def address(self) -> ModelAddress:
        return ModelAddress(self._url, self._token)

    async def replicas(self) -> list[ReplicaInfo]:
        """The engines that are healthy now. InfraError when the model server does not say, or was given up."""
        url = self._url
        require_running(self._runtime)
        return await self._replicas.healthy(self._client, url, self._token)

    async def stop(self) -> None:
        await self._stack.aclose()
        await self._client.aclose()

    @property
    def _url(self) -> str:
        if self._runtime is None or (url := self._runtime.servers[self._name].url) is None:
            raise BugError("the model server was not started", kind="not_started")
        return url


def require_running(runtime: Runtime | None) -> None:
    if runtime is not None and runtime.failure is not None:
        raise runtime.failure


def require_model_server(config: Config, name: str) -> None:
    """ConfigError unless the environment has the model server that is trained."""
    if name not in config.instances:
        raise ConfigError(
            f"the environment has no model server `{name}`: its agents have to ask the model that is trained",
            kind="unknown_instance",
        )


def require_verdicts(config: Config, member_timeout_s: float | None) -> None:
    """ConfigError where a rollout's budget is over before its agent's own limit ends it with a verdict: a policy that
    waits would have no reward in place of a low one."""
    if member_timeout_s is None:
        return
    for name, agent in Router(config).agents.items():
        agent_timeout_s = getattr(agent.config, "agent_timeout_s", None)
        if agent_timeout_s is not None and agent_timeout_s >= member_timeout_s:
            raise ConfigError(
                f"paddock.groups.member_timeout_s ({member_timeout_s:g}) has to be above agent_timeout_s "
                f"({agent_timeout_s:g}) of {name}, by what grading takes: what the agent leaves by then has to be "
                "judged, and not masked",
                kind="config_invalid",
            )


@asynccontextmanager
async def open_environment(
    config: Config,
    attempts: EvalSettings,
    model_server: str,
    model: ModelAddress | None,
    member_timeout_s: float | None = None,
) -> AsyncIterator[RolloutRunner]:
    """Start all agents of the config and the servers they reference. `model`: the model server that runs already; None:
    it is started too. `member_timeout_s`: see `Attempts`."""
    require_model_server(config, model_server)
    running = {model_server: model.url} if model is not None else {}
    token = model.token if model is not None else None
    async with open_runner(
        config, attempts, elsewhere=running, token=token, member_timeout_s=member_timeout_s
    ) as runner:
        yield runner
