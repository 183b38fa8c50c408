"""Runs members of groups through the servers of a config: what every trainer's rollouts go through.

Law     attempts, retries and outcomes are those of a collection (`paddock.collect.attempts`). Rollouts start in the
        order in which they were asked for, and at most `max_rollouts` run at once. Cancelling one ends all that it
        holds; `end` cancels all.
Errors  only what fails every rollout is raised: InfraError where a server was given up, for a disk that refuses, and
        `shut_down` for a rollout that `end` cancelled. ConfigError `concurrency_too_low` for a group whose members wait
        for each other and can't all run at once.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from paddock.collect import EvalSettings, PlannedGroup
from paddock.collect.attempts import Attempts, FinishedMember, ResultSink
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.collect.routing import Router
from paddock.config import Config
from paddock.errors import ConfigError, InfraError
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


class RolloutRunner:
    """The running servers of an environment, and the rollouts in them. Used from one event loop."""

    def __init__(
        self, runtime: Runtime, attempts: EvalSettings, *, sink: ResultSink, max_rollouts: int | None = None
    ) -> None:
        """`sink`: records how attempts end. `max_rollouts`: that run at once; None: as many as are asked for."""
        self.runtime = runtime
        self.router = Router(runtime.config, default=attempts.agent)
        self._attempts_settings = attempts
        self._attempts = Attempts(runtime.peers, sink, attempts)
        self._max_rollouts = max_rollouts
        self._slots: AbstractAsyncContextManager[Any] = (
            asyncio.Semaphore(max_rollouts) if max_rollouts is not None else nullcontext()
        )
        self._running: set[asyncio.Task[FinishedMember]] = set()
        self._closed = False
        self._replicas: dict[str, ServerReplicas] = {}

    def require_running(self) -> None:
        """InfraError when a server was given up."""
        failure = self.runtime.failure
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
        attempts = self._attempts if sink is None else Attempts(self.runtime.peers, sink, self._attempts_settings)
        task = asyncio.create_task(self._run(attempts, group, member, failed_before))
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
            failed_before = reroll * self._attempts_settings.max_attempts
            members = await run_together(
                self.run_member(with_seed(group, nth), nth, failed_before=failed_before, sink=sink) for nth in numbers
            )
            self.require_running()
            ended.update(zip(numbers, members, strict=True))
        return [ended[nth] for nth in range(group.size)]

    async def replicas(self, model_server: str) -> "list[ReplicaInfo]":
        """The healthy vLLM servers of a model server. ConfigError where it has none, or is not there; InfraError when
        it was given up, or does not say."""
        server = self.runtime.servers.get(model_server)
        if server is None or server.implementation != VLLM or server.url is None:
            what = "is not there" if server is None else f"is `{server.implementation}`, not `{VLLM}`"
            text = f"`{model_server}` {what}: weights are sent to a model server `{VLLM}`"
            raise ConfigError(text, kind="no_replicas")
        self.require_running()
        from paddock.http.transport import make_client  # an HTTP client only where it is wanted
        from paddock.server.vllm.weights.replicas import ServerReplicas

        known = self._replicas.setdefault(model_server, ServerReplicas(model_server))
        async with make_client() as client:
            return await known.healthy(client, server.url, self.runtime.token)

    async def end(self) -> None:
        """Cancel all rollouts and wait for them: they need the servers to end in order."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, attempts: Attempts, group: PlannedGroup, member: int, failed_before: int) -> FinishedMember:
        async with self._slots:
            return await attempts.run_member(group, member, failed_before)


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
) -> AsyncIterator[RolloutRunner]:
    """Start all agents of the config, and the servers they reference. `sink`: None records nothing. `elsewhere`: URLs
    of servers that run already, by name; `token`: what they ask for."""
    names = list(Router(config).agents)
    async with open_runtime(config, names=names, token=token, elsewhere=elsewhere) as runtime:
        runner = RolloutRunner(runtime, attempts, sink=sink or NoJournal(), max_rollouts=max_rollouts)
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
