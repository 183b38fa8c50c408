"""Samples of inspect_ai tasks: what the agent `inspect_ai` runs, and the verdict that a task's own scorer has given.

Row     `inspect_task` (a task as `inspect eval` names it), `inspect_args` (its arguments), `sample_id`.
Verdict the scores of the run, which the agent puts into the response under `inspect_ai`: here they are read, not
        computed again. The reward is one of them, as a number; all are metrics.
Errors  VerifierError where the run has no such score, or one that is no finite number.
"""

import math

from pydantic import BaseModel, ConfigDict, Field

from paddock.errors import VerifierError
from paddock.server import ResourcesServer, ServerConfig
from paddock.types import JsonObject, Row, Session, Verdict

SCORES = "inspect_ai"
"""Key of the response."""


class InspectConfig(ServerConfig):
    reward: str | None = None
    """Which score is the reward: a scorer's name, or `scorer/key` of one with several values. None: the first."""


class InspectTask(BaseModel):
    """One sample."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    inspect_task: str = Field(min_length=1)
    """As `inspect eval` names it: `file.py@task`, `package/task`."""
    inspect_args: JsonObject = {}
    """The task's arguments."""
    sample_id: str | int


class InspectServer(ResourcesServer[InspectConfig, InspectTask]):
    OWN_PROMPT = True
    config_type = InspectConfig
    task_type = InspectTask

    async def seed_session(self, task: InspectTask, row: Row) -> Session:
        return Session(visible=task.model_dump())

    async def verify(self, task: InspectTask, row: Row, response: JsonObject) -> Verdict:
        run = response.get(SCORES)
        scores = run.get("scores") if isinstance(run, dict) else None
        if not isinstance(scores, dict) or not scores:
            raise VerifierError("the response has no scores of a run of inspect_ai", kind="no_scores")
        name = self.config.reward or next(iter(scores))
        if name not in scores:
            raise VerifierError(f"no score {name!r}; there are: {', '.join(scores)}", kind="no_scores")
        value = scores[name]
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise VerifierError(f"score {name!r} is {value!r}, no finite number", kind="score_unusable")
        given = {key: float(one) for key, one in scores.items() if isinstance(one, int | float)}
        numbers = {key: one for key, one in given.items() if math.isfinite(one)}
        reason = "correct" if value >= 1 else "incorrect" if value <= 0 else "partial"
        return Verdict(reward=float(value), reason=reason, comparator=name, metrics=numbers)
