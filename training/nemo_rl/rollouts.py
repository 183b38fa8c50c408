"""Rows of NeMo-RL through our agents: a result for each, as `paddock eval` would have run it.

Law     rollouts are those of every trainer (`paddock.rollouts.runner`). A rollout or a row that failed is a masked
        result, which is counted and logged; it ends nothing else. Cancelling a rollout ends all that it holds, and
        nothing of it is written.
Errors  those of the runner.
"""

import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from paddock.rollouts.journal import RolloutJournal
from paddock.rollouts.runner import RolloutRunner, open_runner
from paddock.training.nemo_rl.compose import NemoRlEnvironment
from paddock.training.nemo_rl.member_requests import MemberRequest, member_requests
from paddock.training.nemo_rl.records import Result
from paddock.training.nemo_rl.results import is_masked, result_of
from paddock.types import JsonObject

FOLDER = Path("runs", "nemo_rl")
"""Each start has a folder of its own below it; `eval.out` names another parent."""
_log = logging.getLogger(__name__)


class RolloutService:
    """The rollouts of NeMo-RL's rows. Used from one event loop."""

    def __init__(self, runner: RolloutRunner, run_id: str) -> None:
        self.run_id = run_id
        self.masked: Counter[str] = Counter()
        """How many results were masked since the start, by reason."""
        self.n_results = 0
        self._runner = runner

    def member_requests(self, rows: Sequence[JsonObject]) -> list[MemberRequest]:
        """The rollouts to run for rows. ConfigError for a group that can't be in flight as a whole."""
        requests = member_requests(rows, self._runner.router, run_id=self.run_id)
        for request in requests:
            self._runner.require_room(request.group)
        return requests

    async def run(self, request: MemberRequest) -> Result:
        result = result_of(request, await self._runner.run_member(request.group, request.member))
        self._count(result)
        return result

    def require_running(self) -> None:
        """InfraError when a server was given up."""
        self._runner.require_running()

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
        runner = await stack.enter_async_context(
            open_runner(environment.config, environment.attempts, sink=journal, max_rollouts=environment.max_in_flight)
        )
        _log.info("serving NeMo-RL: %s; rollouts in %s", ", ".join(runner.router.agents), folder)
        yield RolloutService(runner, folder.name)
