"""Rows of NeMo-RL through our agents: a result for each, as `paddock eval` would have run it.

Law     attempts, retries and outcomes are those of a collection (`paddock.collect.attempts`). A rollout or a row that
        failed is a masked result, which is counted and logged; it ends nothing else. Cancelling a rollout ends all that
        it holds, and nothing of it is written.
Errors  only what fails every rollout is raised: InfraError for a disk that refuses, for a call after a server was given
        up, and for rollouts in flight when the environment is shut down (kind `shut_down`). ConfigError for a group
        whose members wait for each other and can't all be in flight.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

from paddock.collect.attempts import Attempts
from paddock.collect.routing import Router
from paddock.errors import ConfigError, InfraError
from paddock.server.runtime import Runtime, open_runtime
from paddock.training.nemo_rl.compose import NemoRlEnvironment
from paddock.training.nemo_rl.journal import RolloutJournal
from paddock.training.nemo_rl.member_requests import MemberRequest, member_requests
from paddock.training.nemo_rl.records import Result
from paddock.training.nemo_rl.results import is_masked, result_of
from paddock.types import JsonObject

FOLDER = Path("runs", "nemo_rl")
"""Each start has a folder of its own below it; `eval.out` names another parent."""
_log = logging.getLogger(__name__)


class RolloutService:
    """The running servers of an environment, and the rollouts in them. Used from one event loop."""

    def __init__(self, environment: NemoRlEnvironment, runtime: Runtime, journal: RolloutJournal) -> None:
        self.run_id = journal.folder.name
        self.masked: Counter[str] = Counter()
        """How many results were masked since the start, by reason."""
        self.n_results = 0
        self._router = Router(environment.config)
        self._runtime = runtime
        self._attempts = Attempts(runtime.peers, journal, environment.attempts)
        # Members of a group may wait for each other: rollouts start in the order of requests, groups together.
        self._max_in_flight = environment.max_in_flight
        self._slots = asyncio.Semaphore(environment.max_in_flight) if environment.max_in_flight else nullcontext()
        self._running: set[asyncio.Task[Result]] = set()
        self._closed = False

    def member_requests(self, rows: Sequence[JsonObject]) -> list[MemberRequest]:
        """The rollouts to run for rows. ConfigError for a group that can't be in flight as a whole."""
        requests = member_requests(rows, self._router, run_id=self.run_id)
        limit = self._max_in_flight
        for group in (request.group for request in requests):
            if limit and group.agent and group.agent.group_wise and group.size > limit:
                raise ConfigError(
                    f"eval.concurrency: {limit} rollouts at once, but {group.agent.environment} judges the "
                    f"{group.size} rollouts of a row together, and they wait for each other",
                    kind="concurrency_too_low",
                )
        return requests

    async def run(self, request: MemberRequest) -> Result:
        self.require_running()
        task = asyncio.create_task(self._run(request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if self._closed:
                raise InfraError("the environment was shut down", kind="shut_down", retryable=False) from None
            raise

    async def end(self) -> None:
        """Cancel all rollouts and wait for them: they need the servers to end in order."""
        self._closed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, request: MemberRequest) -> Result:
        async with self._slots:
            attempt_result = await self._attempts.run_member(request.group, request.member, 0)
        result = result_of(request, attempt_result)
        self._count(result)
        return result

    def require_running(self) -> None:
        """InfraError when a server was given up."""
        failure = self._runtime.failure
        if failure is not None:
            text = f"the environment's servers were given up: {failure.message}"
            raise InfraError(text, kind=failure.kind, retryable=False)

    def _count(self, result: Result) -> None:
        self.n_results += 1
        if not is_masked(result):
            return
        why = str(result["instance_config"].get("mask_reason", "flagged"))
        self.masked[why] += 1
        failure = result["paddock"].get("failure") or {}
        _log.warning(
            "masked: %s: %s (%s of %d results so far: %s)",
            why,
            failure.get("message", "nothing in it can be trained on"),
            self.masked.total(),
            self.n_results,
            dict(self.masked),
        )


@asynccontextmanager
async def open_rollouts(environment: NemoRlEnvironment) -> AsyncIterator[RolloutService]:
    """Start all agents of the config, and the servers they reference."""
    parent = Path(environment.attempts.out) if environment.attempts.out else FOLDER
    folder = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    async with AsyncExitStack() as stack:
        journal = RolloutJournal(folder, environment.config)
        stack.push_async_callback(journal.close)
        names = list(Router(environment.config).agents)
        runtime = await stack.enter_async_context(open_runtime(environment.config, names=names))
        _log.info("serving NeMo-RL: %s; rollouts in %s", ", ".join(runtime.servers), folder)
        rollouts = RolloutService(environment, runtime, journal)
        stack.push_async_callback(rollouts.end)
        yield rollouts
