"""Rows of NeMo-RL through our agents: a result for each, as `paddock eval` would have run it.

Law     attempts, retries and outcomes are those of a collection (`paddock.collect.attempts`). A rollout or a row that
        failed is a masked result, counted and said aloud; it ends nothing else. Cancelling a rollout ends all that it
        holds, and nothing of it is written down.
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
from paddock.training.nemo_rl.composing import Composed
from paddock.training.nemo_rl.grouping import Asked, asked
from paddock.training.nemo_rl.journal import Journal
from paddock.training.nemo_rl.records import Result
from paddock.training.nemo_rl.results import is_masked, result_of
from paddock.types import JsonObject

FOLDER = Path("runs", "nemo_rl")
"""Below it, each start has a folder of its own; `eval.out` names another."""
_log = logging.getLogger(__name__)


class Rollouts:
    """Running servers, and the rollouts in them. Used from one event loop."""

    def __init__(self, composed: Composed, runtime: Runtime, journal: Journal) -> None:
        self.run_id = journal.folder.name
        self.masked: Counter[str] = Counter()
        """Results that were masked since the start, by why."""
        self.n_results = 0
        self._router = Router(composed.config)
        self._runtime = runtime
        self._attempts = Attempts(runtime.peers, journal, composed.attempts)
        # Members of a group may wait for each other: rollouts are let in as they were asked for, groups together.
        self._at_once = composed.at_once
        self._room = asyncio.Semaphore(composed.at_once) if composed.at_once else nullcontext()
        self._running: set[asyncio.Task[Result]] = set()
        self._ending = False

    def asked(self, rows: Sequence[JsonObject]) -> list[Asked]:
        found = asked(rows, self._router, run_id=self.run_id)
        for one in found:
            if self._at_once and one.group.agent and one.group.agent.group_wise and one.group.size > self._at_once:
                raise ConfigError(
                    f"eval.concurrency: {self._at_once} rollouts at once, but {one.group.agent.environment} judges the "
                    f"{one.group.size} rollouts of a row together, and they wait for each other",
                    kind="concurrency_too_low",
                )
        return found

    async def run(self, asked: Asked) -> Result:
        self.require_running()
        task = asyncio.create_task(self._run(asked))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await task
        except asyncio.CancelledError:
            if self._ending:
                raise InfraError("the environment was shut down", kind="shut_down", retryable=False) from None
            raise

    async def end(self) -> None:
        """What runs is cancelled, and waited for: it needs the servers to end in order."""
        self._ending = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, asked: Asked) -> Result:
        async with self._room:
            ended = await self._attempts.run_member(asked.group, asked.member, 0)
        result = result_of(asked, ended)
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
        told = result["paddock"].get("failure") or {}
        _log.warning(
            "masked: %s: %s (%s of %d results so far: %s)",
            why,
            told.get("message", "nothing in it can be trained on"),
            self.masked.total(),
            self.n_results,
            dict(self.masked),
        )


@asynccontextmanager
async def open_rollouts(composed: Composed) -> AsyncIterator[Rollouts]:
    """All agents of the config, and what they reference."""
    parent = Path(composed.attempts.out) if composed.attempts.out else FOLDER
    folder = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    async with AsyncExitStack() as stack:
        journal = Journal(folder, composed.config)
        stack.push_async_callback(journal.close)
        names = list(Router(composed.config).agents)
        runtime = await stack.enter_async_context(open_runtime(composed.config, names=names))
        _log.info("serving NeMo-RL: %s; rollouts in %s", ", ".join(runtime.servers), folder)
        rollouts = Rollouts(composed, runtime, journal)
        stack.push_async_callback(rollouts.end)
        yield rollouts
