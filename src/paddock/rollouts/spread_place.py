"""Members of a trainer's groups in worker processes: on this machine, or on the nodes of a Ray cluster.

Workers those of a collection (`paddock.collect.crew`), each with servers of its own; servers of which there can be only
        one are started here. Engine functions are called in this process, whoever asks, through the workers' links.
Loss    of a worker or its node costs the attempts that it had: each is a failed one (`worker_lost`), and is made again
        elsewhere while the member has attempts left.
Errors  ConfigError `not_spread` for what needs one process; InfraError `workers_lost` when no worker is left.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import orjson

from paddock.collect import EvalSettings, Plan, PlannedGroup, Selection, ServerLocations
from paddock.collect.attempts import Attempts, FinishedMember, NoVerdict, ResultSink, failed_attempt
from paddock.collect.crew import open_spread
from paddock.collect.identity import Scope, identify
from paddock.collect.routing import Router
from paddock.collect.worker_pool import WorkerPool
from paddock.collect.worker_process import LinkedWorker
from paddock.collect.workers import WorkerLostError
from paddock.config import Config, resolve_class
from paddock.errors import ConfigError, InfraError
from paddock.rollouts.member_job import EngineTask, MemberProgress, MemberTask
from paddock.rollouts.options import RolloutOptions
from paddock.server.base import Server
from paddock.server.exact.functions import EngineFunctionServer, FunctionEngine
from paddock.server.runtime import Runtime, shared_names
from paddock.server.settings import serve_settings
from paddock.server.sockets import is_loopback
from paddock.types import Rollout

OPENS = "paddock.rollouts.worker_members:open_trainer_members"


class SpreadPlace:
    """The workers of one trainer (`paddock.rollouts.runner.MemberPlace`)."""

    def __init__(
        self,
        pool: WorkerPool,
        settings: EvalSettings,
        engines: Mapping[str, FunctionEngine],
        runtime: Runtime | None,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._engines = engines
        self.runtime = runtime

    @property
    def failure(self) -> InfraError | None:
        return self._pool.gone or (self.runtime.failure if self.runtime is not None else None)

    @property
    def engines(self) -> Sequence[FunctionEngine]:
        return list(self._engines.values())

    async def run_member(
        self, group: PlannedGroup, member: int, failed_before: int, sink: ResultSink
    ) -> FinishedMember:
        if group.row is None or group.error is not None:
            return await Attempts({}, sink, self._settings).run_member(group, member, failed_before)
        text = orjson.dumps(group.row.to_wire())
        task = MemberTask(text, group.line.index, group.size, member, failed_before)
        load = await self._pool.take()
        progress = MemberProgress(task, sink)
        while True:
            try:
                await load.worker.run(progress.task, progress)
            except WorkerLostError as error:
                await self._charge(progress, group, error)
            finally:
                self._pool.give_back(load)
            if progress.finished is not None:
                return progress.finished
            load = await self._pool.take()

    async def _charge(self, progress: MemberProgress, group: PlannedGroup, error: WorkerLostError) -> None:
        """Count an attempt that a lost worker had in flight as failed."""
        if progress.finished is not None or group.row is None:
            return
        task = progress.task
        lost = WorkerLostError(f"its worker {error.message}").failure()
        final = task.made + 1 >= self._settings.max_attempts
        failed = failed_attempt(group, task.member, task.attempt, NoVerdict("infra", lost), final=final)
        await progress.failure(failed)
        if final:
            rollout = Rollout(row=group.row, outcome="infra", failure=lost)
            await progress.finish(failed.result(), orjson.dumps(rollout.to_wire()))


@asynccontextmanager
async def open_spread_place(
    config: Config,
    attempts: EvalSettings,
    options: RolloutOptions,
    *,
    run_id: str,
    elsewhere: Mapping[str, str],
    token: str | None,
) -> AsyncIterator[SpreadPlace]:
    """Start the workers; they end with the block. `elsewhere`: URLs of servers that run already, by name."""
    plan = _plan(config, attempts, options, run_id)
    engines = _engines(plan)
    _require_spread(plan, engines, elsewhere)
    for engine in engines.values():
        await engine.start()
    serving = serve_settings(config)

    async def attend(worker: LinkedWorker) -> None:
        task = EngineTask(engines, worker.link)
        try:
            with suppress(WorkerLostError):
                await worker.run(task, None)
        finally:
            await task.close()

    async with open_spread(plan, ServerLocations(urls=elsewhere, token=token), opens=OPENS) as spread:
        pool = WorkerPool(
            options.max_rollouts,
            max_restarts=serving.max_restarts,
            restart_wait_s=serving.restart_wait_s,
            attend=attend if engines else None,
        )
        keeper = asyncio.create_task(pool.keep(spread.opened))
        try:
            yield SpreadPlace(pool, plan.settings, engines, spread.runtime)
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)


def _plan(config: Config, attempts: EvalSettings, options: RolloutOptions, run_id: str) -> Plan:
    """That of a collection whose rows come later."""
    spread = {"workers": options.workers, "cluster": options.cluster, "cluster_label": options.cluster_label}
    settings = attempts.model_copy(update={**spread, "concurrency": options.max_rollouts})
    router = Router(config, default=settings.agent)
    scope = Scope([], Selection(), 0, options.max_rollouts)
    identity = identify(config, settings, scope, router, oracle=False).model_copy(update={"run_id": run_id})
    return Plan(config, settings, router, [], Selection(), identity)


def _engines(plan: Plan) -> dict[str, FunctionEngine]:
    """An engine for each model server that is a function, by its name."""
    engines = {}
    for name in plan.config.needed(plan.router.agents):
        instance = plan.config.instance(name)
        cls: Any = resolve_class(instance.implementation, instance.kind)
        if issubclass(cls, EngineFunctionServer):
            server: Server[Any] = cls(plan.config.settings(name, cls.config_type), name=name, peers={})
            assert isinstance(server, EngineFunctionServer)
            engines[name] = server.make_engine()
    return engines


def _require_spread(plan: Plan, engines: Mapping[str, FunctionEngine], elsewhere: Mapping[str, str]) -> None:
    """ConfigError for what works in one process alone."""
    for agent in plan.router.agents.values():
        if agent.group_wise:
            raise ConfigError(
                f"{agent.environment} judges the rollouts of a row together, so they need one process: set neither "
                "`rollouts.workers` nor `rollouts.cluster`",
                kind="not_spread",
            )
    apart = [name for name in shared_names(plan.config, list(plan.router.agents)) if name not in elsewhere]
    for name in engines:
        if name in apart:
            raise ConfigError(
                f"{name} samples by a function of this process, but a server that has a process of its own calls it "
                f"({', '.join(one for one in apart if one != name)}): give that one another model server",
                kind="not_spread",
            )
    for name, url in elsewhere.items():
        if plan.settings.cluster is not None and is_loopback(urlsplit(url).hostname or ""):
            raise ConfigError(
                f"{name}: {url} is loopback, which workers on other nodes can't reach: give an address of the network",
                kind="not_spread",
            )
