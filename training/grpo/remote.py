"""Roles in processes of their own, behind the interfaces of `roles`.

Policy  one process, or several that hold the weights together, as one (`policy_processes`).
Law     a batch goes to the policy without the groups that it was made of, which are many times as large.
Errors  those of `RoleProcess`; InfraError when the worker does not answer a short call; `role_stuck`, not
        retryable, when the policy is silent for longer than it may take for anything.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from paddock.collect import PlannedGroup
from paddock.config import Config
from paddock.errors import InfraError
from paddock.ports import free_port
from paddock.training.core.records import Batch
from paddock.training.grpo.policy_processes import PolicyProcesses
from paddock.training.grpo.policy_settings import PolicySettings, RankInfo
from paddock.training.grpo.processes import RoleProcess, RoleProcesses
from paddock.training.grpo.roles import GroupJob, Policy, ReplicaInfo, SendResult, TrainResult
from paddock.training.grpo.worker import FinishedGroup, FinishedValidation, RolloutWorker, WorkerSettings

REPLICAS_TIMEOUT_S = 120.0
"""For a worker that is healthy but busy; its own calls to engines take a fraction of that."""


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

    async def replicas(self) -> list[ReplicaInfo]:
        try:
            async with asyncio.timeout(REPLICAS_TIMEOUT_S):
                result: list[ReplicaInfo] = await self._role.call("replicas")
        except TimeoutError as error:
            text = f"the rollout worker did not say within {REPLICAS_TIMEOUT_S:g} s which engines are healthy"
            raise InfraError(text, kind="replicas_unknown") from error
        return result

    async def stop(self) -> None:
        await self._role.end()


class RemotePolicy:
    """The role `roles.Policy` in another process. `timeout_s`: for each of its calls."""

    def __init__(self, role: RoleProcess, timeout_s: float) -> None:
        self._role = role
        self._timeout_s = timeout_s

    async def train(self, batch: Batch) -> TrainResult:
        trained: TrainResult = await self._call("train", batch._replace(groups=[]))
        return trained

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        sent: SendResult = await self._call("send", version, replicas, clear_cache=clear_cache)
        return sent

    async def save(self, folder: Path) -> None:
        await self._call("save", folder)

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


async def start_rollouts(
    processes: RoleProcesses, config: Config, settings: WorkerSettings, env: Mapping[str, str]
) -> RemoteWorker:
    """Start the rollout worker; its servers and engines run when this returns."""
    role = processes.start("rollouts", env=env)
    await role.make(_make_worker, config.to_yaml(), settings)
    return RemoteWorker(role)


async def start_policy(
    processes: RoleProcesses, settings: PolicySettings, world_size: int, env: Mapping[str, str], timeout_s: float
) -> RemotePolicy | PolicyProcesses:
    """Start the policy; its model is loaded when this returns. `timeout_s`: for that, and for each call."""
    port = free_port() if world_size > 1 else 0
    rank_infos = [RankInfo(rank, world_size, master_port=port) for rank in range(world_size)]
    roles = [
        processes.start(f"policy-{rank_info.rank}" if world_size > 1 else "policy", env=env) for rank_info in rank_infos
    ]
    constructions = (
        role.make(_make_policy, settings, rank_info) for role, rank_info in zip(roles, rank_infos, strict=True)
    )
    async with _with_limit("policy", "make", timeout_s):
        await asyncio.gather(*constructions)
    ranks = [RemotePolicy(role, timeout_s) for role in roles]
    return ranks[0] if world_size == 1 else PolicyProcesses(ranks)


async def _make_worker(config: str, settings: WorkerSettings) -> RolloutWorker:
    worker = RolloutWorker(Config.from_yaml(config), settings)
    await worker.start()
    return worker


async def _make_policy(settings: PolicySettings, rank_info: RankInfo) -> Policy:
    # With torch: in that process alone.
    if settings.policy.megatron_cfg.enabled:
        from paddock.training.grpo.megatron.policy import make_policy as make_megatron_policy

        return await make_megatron_policy(settings, rank_info)
    from paddock.training.grpo.policy import make_policy

    return await make_policy(settings, rank_info)
