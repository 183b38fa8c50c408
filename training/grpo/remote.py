"""Roles in processes of their own, behind the interfaces of `roles`.

Policy  one process, or several that hold the weights together, as one (`policy_processes`).
Law     a batch is put in shared memory once, where all ranks read it, without the groups that it was made of.
Errors  those of `RoleProcess`; InfraError when the model server does not answer a short call; `role_stuck`, not
        retryable, when the policy is silent for longer than it may take for anything.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from paddock.collect import PlannedGroup
from paddock.config import Config
from paddock.errors import InfraError
from paddock.server.access import TOKEN_BYTES
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.training.core.records import Batch
from paddock.training.grpo.environment import EngineHost, ModelAddress, require_model_server
from paddock.training.grpo.model_server import SharedEngines, with_launch, with_own_model_server
from paddock.training.grpo.placement import RolePlace, RolePlacement
from paddock.training.grpo.policy_processes import PolicyProcesses
from paddock.training.grpo.policy_settings import PolicySettings, RankInfo
from paddock.training.grpo.processes import RoleProcess, RoleProcesses, put
from paddock.training.grpo.roles import GroupJob, Policy, TokenNll, TrainResult
from paddock.training.grpo.rollouts import Sampler
from paddock.training.grpo.worker import FinishedGroup, FinishedValidation, RolloutWorker, WorkerSettings
from paddock.types import JsonObject

REPLICAS_TIMEOUT_S = 120.0
"""For a model server that is healthy but busy; its own calls to engines take a fraction of that."""


class RemoteWorker:
    """A rollout worker in another process: a `rollouts.GroupRunner`."""

    def __init__(self, role: RoleProcess) -> None:
        self._role = role

    async def run_group(self, work: GroupJob, row: PlannedGroup, version: int) -> FinishedGroup:
        finished: FinishedGroup = await self._role.call("run_group", work, row, version)
        return finished

    async def validate(self, rows: Sequence[PlannedGroup], step: int) -> FinishedValidation:
        finished: FinishedValidation = await self._role.call("validate", rows, step)
        return finished

    async def stop(self) -> None:
        await self._role.end()


class RemoteEngines:
    """An `EngineHost` in another process."""

    def __init__(self, role: RoleProcess, address: ModelAddress) -> None:
        self._role = role
        self.address = address

    async def replicas(self) -> list[ReplicaInfo]:
        try:
            async with asyncio.timeout(REPLICAS_TIMEOUT_S):
                result: list[ReplicaInfo] = await self._role.call("replicas")
        except TimeoutError as error:
            text = f"the model server did not say within {REPLICAS_TIMEOUT_S:g} s which engines are healthy"
            raise InfraError(text, kind="replicas_unknown") from error
        return result

    async def stop(self) -> None:
        await self._role.end()


class RemotePolicy:
    """The role `roles.Policy` in another process; a batch may be a reference to one (`processes.put`). `timeout_s`: for
    each of its calls."""

    def __init__(self, role: RoleProcess, timeout_s: float) -> None:
        self._role = role
        self._timeout_s = timeout_s

    async def train(self, batch: Batch) -> TrainResult:
        trained: TrainResult = await self._call("train", batch)
        return trained

    async def token_nll(self, batch: Batch) -> TokenNll:
        nll: TokenNll = await self._call("token_nll", batch)
        return nll

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        sent: SendResult = await self._call("send", version, replicas, clear_cache=clear_cache)
        return sent

    async def save(self, folder: Path, *, background: bool = False) -> None:
        await self._call("save", folder, background=background)

    async def finish_save(self) -> None:
        await self._call("finish_save")

    async def load(self, folder: Path) -> None:
        await self._call("load", folder)

    async def export(self, folder: Path) -> None:
        await self._call("export", folder)

    async def stop(self) -> None:
        await self._role.end()

    async def _call(self, name: str, *args: Any, **options: Any) -> Any:
        async with _with_limit(self._role.name, name, self._timeout_s):
            return await self._role.call(name, *args, **options)


@asynccontextmanager
async def _with_limit(process: str, what: str, timeout_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        text = (
            f"the process of {process} is stuck: it has not ended `{what}` in {timeout_s:g} s "
            "(paddock.policy_timeout_s)"
        )
        raise InfraError(text, kind="role_stuck", retryable=False) from error


async def start_samplers(
    processes: RoleProcesses, placement: RolePlacement, config: Config, settings: WorkerSettings
) -> list[Sampler]:
    """Start all engines and rollout workers."""

    async def start_host(engines: RolePlace, own: Sequence[RolePlace]) -> list[Sampler]:
        source = await start_engines(processes, engines, config, settings.model_server)
        near = [place for place in own if place.node.id == engines.node.id]
        workers = (
            start_rollouts(processes, place, config, settings, source.address, len(near) if place in near else None)
            for place in own
        )
        first, *others = await asyncio.gather(*workers)
        return [Sampler(first, source), *map(Sampler, others)]

    started = await asyncio.gather(*map(start_host, placement.engines, placement.workers))
    return [sampler for samplers in started for sampler in samplers]


async def start_engines(processes: RoleProcesses, place: RolePlace, config: Config, name: str) -> RemoteEngines:
    """Start a model server; its engines run when this returns."""
    require_model_server(config, name)
    role = processes.start(place.role, place)
    token = token_urlsafe(TOKEN_BYTES)
    prefix = place.role if place.replicas else ""
    fields: JsonObject = {"replicas": place.replicas} if place.replicas else {}
    if place.ranks:
        fields["ray"] = processes.ray_ranks(place)
    own = with_launch(config, name, fields)
    await role.make(_make_engines, own, name, place.node.address, token, prefix)
    return RemoteEngines(role, await role.call("address"))


async def start_rollouts(
    processes: RoleProcesses,
    place: RolePlace,
    config: Config,
    settings: WorkerSettings,
    model: ModelAddress,
    n_near: int | None = None,
) -> RemoteWorker:
    """Start a rollout worker; its servers run when this returns. `n_near`: rollout workers on the node of the engines
    of `model`, this one among them, each with a model server of its own; None: it is on another, and vLLM is asked on
    its own node alone."""
    role = processes.start(place.role, place)
    own = None
    if n_near is not None:
        engines = SharedEngines(model.url, model.token, place.role, n_near)
        own = with_own_model_server(config, settings.model_server, engines)
    await role.make(_make_worker, (own or config).to_yaml(), settings, model if own is None else None)
    return RemoteWorker(role)


async def start_policy(
    processes: RoleProcesses, places: Sequence[RolePlace], settings: PolicySettings, timeout_s: float
) -> PolicyProcesses:
    """Start the policy, a process for each place; its model is loaded when this returns. `timeout_s`: for that, and for
    each call."""
    roles = [processes.start(place.role, place) for place in places]
    addresses = [place.node.address for place in places]
    async with _with_limit("policy", "make", timeout_s):
        port = await roles[0].free_port(addresses[0]) if len(roles) > 1 else 0
        rank_infos = (
            RankInfo(rank, len(roles), master_address=addresses[0], master_port=port, address=address)
            for rank, address in enumerate(addresses)
        )
        constructions = (
            role.make(_make_policy, settings, rank_info) for role, rank_info in zip(roles, rank_infos, strict=True)
        )
        await asyncio.gather(*constructions)
    return PolicyProcesses([RemotePolicy(role, timeout_s) for role in roles], put)


async def _make_engines(config: str, *args: str) -> EngineHost:
    host = EngineHost(Config.from_yaml(config), *args)
    await host.start()
    return host


async def _make_worker(config: str, settings: WorkerSettings, model: ModelAddress | None) -> RolloutWorker:
    worker = RolloutWorker(Config.from_yaml(config), settings, model)
    await worker.start()
    return worker


async def _make_policy(settings: PolicySettings, rank_info: RankInfo) -> Policy:
    # With torch: in that process alone.
    if settings.policy.megatron_cfg.enabled:
        from paddock.training.grpo.megatron.policy import make_policy as make_megatron_policy

        return await make_megatron_policy(settings, rank_info)
    from paddock.training.grpo.policy import make_policy

    return await make_policy(settings, rank_info)
