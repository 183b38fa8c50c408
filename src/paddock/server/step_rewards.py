"""Step rewards from an agent's side: each step is judged as soon as it has ended, beside the rollout's own work.

Law     no step waits for a score, and no rollout fails for one. At its end a rollout waits at most `score_timeout_s`
        for what is still out, and no longer than its own time; what has not come then is missing, never a number. Where
        nothing at all came, the reward would be that of a neutral judge: such a rollout is masked, unless the config
        says otherwise. Whoever leaves the `async with`, in whatever way, leaves nothing running.
Errors  VerifierError `steps_unjudged`, not retryable: the rollout's work was done, only its judge was not there.
Ids     a step is known by the harness's number of its turn, and each has its own entry: a step without a call is a step
        like the others, judged or skipped as the config says, and shifts nothing.
Seeds   by the row's group, epoch, member and attempt, and the turn: the same rollout asks for the same votes.
"""

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator

from paddock.errors import PaddockError, VerifierError
from paddock.http import SCORE_STEP, Call, Peer, StepRequest, StepScore
from paddock.server.base import Reference
from paddock.types import JsonObject, Row
from paddock.types.records import Finite
from paddock.types.renamed import RenamedKeys
from paddock.types.responses import calls
from paddock.types.seeds import seed_from
from paddock.types.step_rewards import JudgedStep, OutcomeValues, StepRewards

END_WAIT_S = 10.0
"""Seconds that calls have to end once they are cancelled."""
SPARE_S = 5.0
"""Seconds of a rollout's own time that waiting for scores leaves."""
_log = logging.getLogger(__name__)


class StepRewardSettings(RenamedKeys):
    """An agent's `step_rewards`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    OLD_NAMES: ClassVar[Mapping[str, str]] = {"prm_wait_s": "score_timeout_s"}

    server: Reference
    """The resources server whose `/score_step` judges."""
    coefficient: Finite = 1.0
    """Weight of the mean score in the rollout's reward."""
    score_timeout_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Seconds that a graded rollout waits for scores that have not come. One that is later is missing whole, so
    the server's `step_score.vote_timeout_s` should be shorter: then a late vote costs itself alone."""
    max_concurrency: int = Field(default=128, ge=1)
    """Steps that the agent asks about at once, over all its rollouts; others wait. So a judge that hangs can't take the
    connections that rollouts need."""
    outcome_values: OutcomeValues = OutcomeValues()
    """What the environment's rewards 0 and 1 are worth; swe-rl's are -1 and 1."""
    unscored: Literal["mask", "outcome"] = "mask"
    """A rollout of which steps were to be judged and none was: `mask`: it gets no reward (outcome `verifier`);
    `outcome`: its reward is the outcome alone."""
    skip_without_call: bool = False
    """Steps without a call, which mostly are last words, are not judged; swe-rl leaves out those and the last one."""

    @field_validator("server")
    @classmethod
    def _judges(cls, value: Reference) -> Reference:
        if value.type != "resources_servers":
            raise ValueError("needs a resources server that judges steps, {type: resources_servers, name: ...}")
        return value


class _StepEntry:
    """One step, and the task that asks for its score."""

    def __init__(self, turn: int, turn_id: str | None) -> None:
        self.turn = turn
        self.turn_id = turn_id
        self.score: StepScore | None = None
        self.missing: str | None = "late"
        self.task: asyncio.Task[None] | None = None

    @property
    def step_id(self) -> str:
        return f"step_{self.turn}"

    def result(self) -> JudgedStep:
        score = self.score
        return JudgedStep(
            step_id=self.step_id,
            turn=self.turn,
            turn_id=self.turn_id,
            score=score.score if score else None,
            votes=list(score.votes) if score else [],
            missing=self.missing,
        )


class StepRewardCollector:
    """Asks for the scores of one rollout's steps; `async with` ends the calls that it began."""

    def __init__(
        self, settings: StepRewardSettings, judge: Peer, slots: asyncio.Semaphore, row: Row, call: Call, *, problem: str
    ) -> None:
        """`slots` bounds the calls over all rollouts."""
        self._settings = settings
        self._slots = slots
        self._judge = judge
        self._row = row
        self._call = call
        self._problem = problem
        self._history: list[list[JsonObject]] = []
        self._entries: list[_StepEntry] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._end()

    def submit(self, turn: int, items: list[JsonObject], turn_id: str | None = None) -> None:
        """A step has ended: ask for its score, and come back at once. To be called inside a running event loop."""
        entry = _StepEntry(turn, turn_id)
        self._entries.append(entry)
        history = list(self._history)
        self._history.append(items)
        if self._settings.skip_without_call and not calls(items):
            entry.missing = "skipped"
            return
        request = StepRequest(
            step_id=entry.step_id,
            problem=self._problem,
            history=history,
            step=items,
            seed=_seed(self._row, turn),
        )
        entry.task = asyncio.get_running_loop().create_task(self._fill(entry, request))

    @property
    def n_pending(self) -> int:
        """Steps whose score has not come."""
        return len(self._pending())

    async def collect(self) -> StepRewards:
        """The step rewards with the scores that came in time."""
        pending = self._pending()
        if pending:
            await asyncio.wait(pending, timeout=self._wait_s())
        await self._end()
        rewards = StepRewards(
            coefficient=self._settings.coefficient,
            outcome_values=self._settings.outcome_values,
            scores=[entry.result() for entry in self._entries],
        )
        why = {step.missing for step in rewards.scores} - {None, "skipped"}
        if self._settings.unscored == "mask" and why and not rewards.present_scores:
            kinds = ", ".join(sorted(map(str, why)))
            raise VerifierError(
                f"{self._judge.name}: of {len(rewards.scores)} steps none was judged ({kinds})",
                kind="steps_unjudged",
                stage="verify",
                retryable=False,
            )
        return rewards

    def _wait_s(self) -> float:
        left = self._call.remaining_s
        return (
            self._settings.score_timeout_s
            if left is None
            else min(self._settings.score_timeout_s, max(0.0, left - SPARE_S))
        )

    async def _fill(self, entry: _StepEntry, request: StepRequest) -> None:
        try:
            async with self._slots:
                score = await self._judge.call(SCORE_STEP, request, Call(deadline=self._call.deadline))
        except PaddockError as error:
            entry.missing = error.kind
        except Exception as error:  # noqa: BLE001 - whatever broke is the judging's, and no failure of the rollout
            _log.exception("%s of a rollout was not judged", entry.step_id)
            entry.missing = type(error).__name__
        else:
            if score.step_id != entry.step_id:
                entry.missing = "other_step"
                return
            entry.score = score
            entry.missing = "no_vote" if score.score is None else None

    def _pending(self) -> list[asyncio.Task[None]]:
        return [entry.task for entry in self._entries if entry.task is not None and not entry.task.done()]

    async def _end(self) -> None:
        running = self._pending()
        for task in running:
            task.cancel()
        if not running:
            return
        _, stuck = await asyncio.wait(running, timeout=END_WAIT_S)
        if stuck:
            _log.warning("%s: a call that was cancelled has not ended in %g s", self._judge.name, END_WAIT_S)


def _seed(row: Row, turn: int) -> int:
    """The same for the same attempt and turn."""
    stamp = row.stamp
    return seed_from(stamp.group_id, stamp.epoch, stamp.member, stamp.attempt, turn)
