"""Roles in processes of their own, as the loop knows them.

Policy  one process, or several that hold the weights together, as one (`policy_processes`).
Law     a batch goes to the policy without the groups that it was made of, which are many times as large.
Errors  those of `RoleProcess`; InfraError when the worker is silent though it was asked little; `role_stuck`, not
        retryable, when the policy is silent for longer than it may take for anything.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from paddock.config import Config
from paddock.errors import InfraError
from paddock.ports import free_port
from paddock.training.core.records import Batch, Group
from paddock.training.grpo.policy_processes import PolicyProcesses
from paddock.training.grpo.policy_settings import PolicySettings, RankInfo
from paddock.training.grpo.processes import RoleProcess, RoleProcesses
from paddock.training.grpo.roles import GroupJob, Policy, ReplicaInfo, SendResult, TrainResult, ValidationResult
from paddock.training.grpo.worker import RolloutWorker, WorkerSettings

REPLICAS_TIMEOUT_S = 120.0
"""Of a worker that is well but busy; it asks its engines itself for a fraction of that."""


class RemoteRollouts:
    """`roles.Rollouts`."""

    def __init__(self, role: RoleProcess) -> None:
        self._role = role

    async def run_group(self, work: GroupJob, version: int) -> Group:
        group: Group = await self._role.call("run_group", work, version)
        return group

    async def validate(self, step: int) -> ValidationResult:
        found: ValidationResult = await self._role.call("validate", step)
        return found

    async def replicas(self) -> list[ReplicaInfo]:
        try:
            async with asyncio.timeout(REPLICAS_TIMEOUT_S):
                found: list[ReplicaInfo] = await self._role.call("replicas")
        except TimeoutError as error:
            text = f"the rollout worker did not say within {REPLICAS_TIMEOUT_S:g} s which engines are well"
            raise InfraError(text, kind="replicas_unknown") from error
        return found

    async def checkpoint(self, folder: Path) -> None:
        await self._role.call("checkpoint", folder)

    async def restore(self, folder: Path) -> None:
        await self._role.call("restore", folder)

    async def stop(self) -> None:
        await self._role.end()


class RemotePolicy:
    """`roles.Policy`. `timeout_s`: for each of its calls."""

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
        async with _in_time(self._role.name, name, self._timeout_s):
            return await self._role.call(name, *args, **options)


@asynccontextmanager
async def _in_time(process: str, what: str, timeout_s: float) -> AsyncIterator[None]:
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
) -> RemoteRollouts:
    """Its servers run, and its engines, when this returns."""
    role = processes.start("rollouts", env=env)
    await role.make(_make_worker, config.to_yaml(), settings)
    return RemoteRollouts(role)


async def start_policy(
    processes: RoleProcesses, settings: PolicySettings, world_size: int, env: Mapping[str, str], timeout_s: float
) -> RemotePolicy | PolicyProcesses:
    """Its model is loaded when this returns. `timeout_s`: for that, and for each call."""
    port = free_port() if world_size > 1 else 0
    places = [RankInfo(rank, world_size, master_port=port) for rank in range(world_size)]
    roles = [processes.start(f"policy-{place.rank}" if world_size > 1 else "policy", env=env) for place in places]
    making = (role.make(_make_policy, settings, place) for role, place in zip(roles, places, strict=True))
    async with _in_time("policy", "make", timeout_s):
        await asyncio.gather(*making)
    ranks = [RemotePolicy(role, timeout_s) for role in roles]
    return ranks[0] if world_size == 1 else PolicyProcesses(ranks)


async def _make_worker(config: str, settings: WorkerSettings) -> RolloutWorker:
    worker = RolloutWorker(Config.from_yaml(config), settings)
    await worker.start()
    return worker


async def _make_policy(settings: PolicySettings, place: RankInfo) -> Policy:
    # With torch: in that process alone.
    if settings.policy.megatron_cfg.enabled:
        from paddock.training.grpo.megatron.policy import make_policy as make_megatron_policy

        return await make_megatron_policy(settings, place)
    from paddock.training.grpo.policy import make_policy

    return await make_policy(settings, place)
