"""The environment that verifiers runs: each episode is one rollout of a row in our servers, agents and harnesses.

Law     our agent takes the place of verifiers' harness, and our model server asks the run's endpoint: with a `train`
        client by ids, with an `eval` client in Chat Completions. Each endpoint and model has its own rollout client,
        which is opened when it is first needed and closed with the environment.
Groups  verifiers tells an environment of none: the episodes of a row are numbered as they begin, here. An environment
        that judges the members of a group together is refused: each would wait for the others.
Errors  a rollout's failure is an error of its trace; what fails every rollout is one too, with the exception's name.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from verifiers.v1 import AgentConfig, Env, EnvConfig, Episode, Task, Trace
from verifiers.v1.clients import ModelContext, TrainClientConfig
from verifiers.v1.configs.agent import resolve_agent
from verifiers.v1.configs.client import resolve_api_key, resolve_headers
from verifiers.v1.episode import EnvInfo
from verifiers.v1.harnesses.null.harness import NullHarnessConfig
from verifiers.v1.runtimes import SubprocessConfig
from verifiers.v1.trace import AgentInfo, TraceTask

from paddock.rollouts import RolloutClient, open_rollouts
from paddock.rollouts.client import with_model_server
from paddock.server.exact.functions import bound_to_loop
from paddock.tokens import Vocabulary
from paddock.training.verifiers.engine import TrainEngine
from paddock.training.verifiers.sampling import with_sampling
from paddock.training.verifiers.taskset import PaddockTasksetConfig, read_config
from paddock.training.verifiers.traces import REWARD, Decode, record

OnTrace = Callable[[Trace], None]


class PaddockEnvConfig(EnvConfig):  # type: ignore[misc]
    """verifiers' own settings of an environment."""

    agent: AgentConfig = AgentConfig(harness=NullHarnessConfig(id="null"), runtime=SubprocessConfig())
    """The seat of the policy. Its model, client and sampling are used; our agent has its own harness and sandboxes."""


class Endpoint(NamedTuple):
    """A rollout client over one endpoint and model."""

    client: RolloutClient
    engine: TrainEngine | None
    """None: the endpoint is asked in Chat Completions."""
    decode: Decode | None


class PaddockEnv(Env[PaddockEnvConfig]):  # type: ignore[misc]
    """The environments of one config."""

    def __init__(self, config: PaddockEnvConfig) -> None:
        super().__init__(config)
        self._endpoints: dict[str, asyncio.Task[Endpoint]] = {}
        self._begun: Counter[int] = Counter()

    async def run(self, task: Task, agents: Any) -> None:
        raise NotImplementedError("episodes of this environment are run by `run_episode`")

    async def run_episode(
        self, task: Task, ctx: ModelContext, *, on_trace: OnTrace | None = None, on_discard: OnTrace | None = None
    ) -> Episode:
        """Run the rollout of a task."""
        agent = resolve_agent(
            self.config.agent,
            model=ctx.model,
            client=ctx.client,
            sampling=ctx.sampling,
            harness=self._default_harness,
        )
        about = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        trace = Trace(task=about, agent=AgentInfo(config=agent), rewards={REWARD: None})
        if on_trace is not None:
            on_trace(trace)
        try:
            async with asyncio.timeout(self.config.timeout.episode):
                await self._roll_out(task, agent, trace)
        except Exception as error:  # noqa: BLE001 - what an episode raises is its own error, and no other's
            trace.is_timeout = isinstance(error, TimeoutError)
            trace.record_error(error)
        trace.is_completed = True
        trace.notify()
        episode = Episode(env=EnvInfo(id=self.config.env_id), task=about, traces=[trace])
        episode.ok = trace.ok
        return episode

    async def stop(self) -> None:
        """Close all rollout clients."""
        for opening in self._endpoints.values():
            if opening.cancel() or opening.cancelled() or opening.exception() is not None:
                continue
            endpoint = opening.result()
            await asyncio.to_thread(endpoint.client.close)
            if endpoint.engine is not None:
                await endpoint.engine.close()
        self._endpoints.clear()

    async def _roll_out(self, task: Task, agent: AgentConfig, trace: Trace) -> None:
        endpoint = await self._endpoint(agent)
        sampling = agent.sampling.model_dump(exclude_none=True)
        if endpoint.engine is not None:
            endpoint.engine.cache_salt = sampling.get("cache_salt")
        row = with_sampling(task.data.row, sampling)
        trace.timing.agent.start = trace.timing.start
        index = task.data.idx or 0
        number = self._begun[index]
        self._begun[index] += 1
        member = await endpoint.client.run_member(row, member=number, size=number + 1, index=index)
        trace.timing.agent.end = trace.timing.start + member.total_s
        record(trace, member, decode=endpoint.decode)

    async def _endpoint(self, agent: AgentConfig) -> Endpoint:
        key = f"{agent.model} {agent.client.model_dump_json()}"
        if key not in self._endpoints:
            self._endpoints[key] = asyncio.create_task(_open(self.config.taskset, agent))
        try:
            return await asyncio.shield(self._endpoints[key])
        except Exception:
            self._endpoints.pop(key, None)
            raise


async def _open(keys: PaddockTasksetConfig, agent: AgentConfig) -> Endpoint:
    if not isinstance(agent.client, TrainClientConfig):
        return Endpoint(await asyncio.to_thread(_open_upstream, keys, agent), None, None)
    settings = {"tokenizer": agent.client.renderer_model_name or agent.model, **keys.engine}
    vocabulary = await asyncio.to_thread(_vocabulary, settings["tokenizer"])
    engine = TrainEngine(agent.client, agent.model)
    function = bound_to_loop(engine, asyncio.get_running_loop())
    client = await asyncio.to_thread(
        open_rollouts, read_config(keys), engine=function, engine_settings=settings, model_server=keys.model_server
    )
    return Endpoint(client, engine, vocabulary.decode)


def _open_upstream(keys: PaddockTasksetConfig, agent: AgentConfig) -> RolloutClient:
    """A client whose model server asks an `eval` client's endpoint."""
    block = {
        "base_url": agent.client.base_url,
        "api_key": resolve_api_key(agent.client),
        "model": agent.model,
        "default_headers": resolve_headers(agent.client),
        **keys.upstream,
    }
    return open_rollouts(with_model_server(read_config(keys), keys.model_server, "openai", block))


def _vocabulary(folder: str) -> Vocabulary:
    return Vocabulary.load(Path(folder).expanduser())
