"""Runs members of groups through the servers of a config: what every trainer's rollouts go through.

Place   this process, or workers in processes of their own (`spread_place`).
Law     attempts, retries and outcomes are those of a collection (`paddock.collect.attempts`). Rollouts start in the
        order in which they were asked for, and at most `max_rollouts` run at once. Cancelling one ends all that it
        holds; `end` cancels all.
Errors  only what fails every rollout is raised: InfraError where a server was given up, for a disk that refuses, and
        `shut_down` for a rollout that `end` cancelled. ConfigError `concurrency_too_low` for a group whose members wait
        for each other and can't all run at once.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from paddock.collect import EvalSettings, PlannedGroup
from paddock.collect.attempts import Attempts, FinishedMember, ResultSink
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.routing import Router
from paddock.config import Config
from paddock.errors import ConfigError, InfraError
from paddock.server.exact import ExactServer
from paddock.server.exact.functions import FunctionEngine
from paddock.server.runtime import Runtime, open_runtime
from paddock.types import RETRIED
from paddock.types.seeds import seed_from

if TYPE_CHECKING:
    from paddock.server.vllm.weights.replicas import ReplicaInfo, ServerReplicas

T = TypeVar("T")
VLLM = "vllm"
_NOWHERE: Mapping[str, str] = {}


class NoJournal:
    """A sink that writes nothing."""

    async def rollout(self, result: RolloutResult, _line: bytes) -> RolloutResult:
        return result

    async def failure(self, _failed: FailedAttempt) -> None:
        return


class MemberPlace(Protocol):
    """Where the members of groups run."""

    @property
    def runtime(self) -> Runtime | None:
        """The servers that this process started; None: it started none."""
        ...

    @property
    def failure(self) -> InfraError | None:
        """Why none runs any more; None: they do."""
        ...

    @property
    def engines(self) -> Sequence[FunctionEngine]:
        """The engines that are functions of this process."""
        ...

    async def run_member(
        self, group: PlannedGroup, member: int, failed_before: int, sink: ResultSink
    ) -> FinishedMember: ...


class LocalPlace:
    """The servers of this process."""

    def __init__(self, runtime: Runtime, attempts: EvalSettings, member_timeout_s: float | None = None) -> None:
        """`member_timeout_s`: see `Attempts`."""
        self.runtime = runtime
        self._attempts = attempts
        self._member_timeout_s = member_timeout_s

    @property
    def failure(self) -> InfraError | None:
        return self.runtime.failure

    @property
    def engines(self) -> Sequence[FunctionEngine]:
        servers = [server for server in self.runtime.local.values() if isinstance(server, ExactServer)]
        engines = [server.equipment.engine for server in servers]
        return [engine for engine in engines if isinstance(engine, FunctionEngine)]

    async def run_member(
        self, group: PlannedGroup, member: int, failed_before: int, sink: ResultSink
    ) -> FinishedMember:
        timeout_s = self._member_timeout_s
        attempts = Attempts(self.runtime.peers, sink, self._attempts, member_timeout_s=timeout_s)
        return await attempts.run_member(group, member, failed_before)


class RolloutRunner:
    """The rollouts in an environment. Used from one event loop."""

    def __init__(
        self,
        config: Config,
        place: MemberPlace,
        attempts: EvalSettings,
        *,
        sink: ResultSink,
        max_rollouts: int | None = None,
    ) -> None:
        """`sink`: records how attempts end. `max_rollouts`: that run at once; None: as many as are asked for."""
        self.router = Router(config, default=attempts.agent)
        self.place = place
        self._max_attempts = attempts.max_attempts
        self._sink = sink
        self._max_rollouts = max_rollouts
        self._slots: AbstractAsyncContextManager[Any] = (
            asyncio.Semaphore(max_rollouts) if max_rollouts is not None else nullcontext()
        )
        self._running: set[asyncio.Task[FinishedMember]] = set()
        self._closed = False
        self._replicas: dict[str, ServerReplicas] = {}

    def require_running(self) -> None:
        """InfraError when a server was given up, or no worker is left."""
        failure = self.place.failure
        if failure is not None:
            text = f"the environment's servers were given up: {failure.message}"
            raise InfraError(text, kind=failure.kind, retryable=False)

    def require_room(self, group: PlannedGroup) -> None:
        """ConfigError for a group whose members wait for each other, and that can't run as a whole."""
        limit = self._max_rollouts
        if limit is not None and group.agent is not None and group.agent.group_wise and group.size > limit:
            raise ConfigError(
                f"only {limit} rollouts run at once, but {group.agent.environment} judges the {group.size} "
                "rollouts of a row together, and they wait for each other",
                kind="concurrency_too_low",
            )

    async def run_member(
        self, group: PlannedGroup, member: int, *, failed_before: int = 0, sink: ResultSink | None = None
    ) -> FinishedMember:
        """Run one member to its end. `failed_before`: number of its first attempt. `sink`: in place of the runner's."""
        self.require_running()
        task = asyncio.create_task(self._run(group, member, failed_before, sink or self._sink))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed:
                raise InfraError("the environment was shut down", kind="shut_down", retryable=False) from None
            raise

    async def run_group(
        self, group: PlannedGroup, *, max_rerolls: int = 0, sink: ResultSink | None = None
    ) -> list[FinishedMember]:
        """Run all members to their ends. `max_rerolls`: how often those that failed for no fault of the policy or the
        row are run anew. A row with a seed gives each member one of its own."""
        self.require_room(group)
        ended: dict[int, FinishedMember] = {}
        for reroll in range(1 + max_rerolls):
            numbers = [nth for nth in range(group.size) if nth not in ended or ended[nth].result.outcome in RETRIED]
            if not numbers:
                break
            failed_before = reroll * self._max_attempts
            members = await run_together(
                self.run_member(with_seed(group, nth), nth, failed_before=failed_before, sink=sink) for nth in numbers
            )
            self.require_running()
            ended.update(zip(numbers, members, strict=True))
        return [ended[nth] for nth in range(group.size)]

    async def replicas(self, model_server: str) -> "list[ReplicaInfo]":
        """The healthy vLLM servers of a model server. ConfigError where it has none, or is not there; InfraError when
        it was given up, or does not say."""
        runtime = self.place.runtime
        server = runtime.servers.get(model_server) if runtime is not None else None
        if runtime is None or server is None or server.implementation != VLLM or server.url is None:
            what = "is not there" if server is None else f"is `{server.implementation}`, not `{VLLM}`"
            text = f"`{model_server}` {what}: weights are sent to a model server `{VLLM}`"
            raise ConfigError(text, kind="no_replicas")
        self.require_running()
        from paddock.http.transport import make_client  # an HTTP client only where it is wanted
        from paddock.server.vllm.weights.replicas import ServerReplicas

        known = self._replicas.setdefault(model_server, ServerReplicas(model_server))
        async with make_client() as client:
            return await known.healthy(client, server.url, runtime.token)

    async def end(self) -> None:
        """Cancel all rollouts and wait for them: they need the servers to end in order."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, group: PlannedGroup, member: int, failed_before: int, sink: ResultSink) -> FinishedMember:
        async with self._slots:
            return await self.place.run_member(group, member, failed_before, sink)


def with_seed(group: PlannedGroup, member: int) -> PlannedGroup:
    """The group as a member has it: with a seed of its own, where the row has one."""
    if group.row is None or (seed := group.row.responses_create_params.get("seed")) is None:
        return group
    params = {**group.row.responses_create_params, "seed": seed_from(seed, member)}
    return group._replace(row=group.row.model_copy(update={"responses_create_params": params}))


@asynccontextmanager
async def open_runner(
    config: Config,
    attempts: EvalSettings,
    *,
    sink: ResultSink | None = None,
    max_rollouts: int | None = None,
    elsewhere: Mapping[str, str] = _NOWHERE,
    token: str | None = None,
    member_timeout_s: float | None = None,
) -> AsyncIterator[RolloutRunner]:
    """Start all agents of the config, and the servers they reference. `sink`: None records nothing. `elsewhere`: URLs
    of servers that run already, by name; `token`: what they ask for. `member_timeout_s`: see `Attempts`."""
    names = list(Router(config).agents)
    async with open_runtime(config, names=names, token=token, elsewhere=elsewhere) as runtime:
        place = LocalPlace(runtime, attempts, member_timeout_s)
        async with running(config, place, attempts, sink=sink, max_rollouts=max_rollouts) as runner:
            yield runner


@asynccontextmanager
async def running(
    config: Config,
    place: MemberPlace,
    attempts: EvalSettings,
    *,
    sink: ResultSink | None = None,
    max_rollouts: int | None = None,
) -> AsyncIterator[RolloutRunner]:
    """A runner at a place; the rollouts that run end with the block."""
    runner = RolloutRunner(config, place, attempts, sink=sink or NoJournal(), max_rollouts=max_rollouts)
    try:
        yield runner
    finally:
        await runner.end()


async def run_together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results, in order; when one raises or this is cancelled, the others are cancelled and waited for."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
