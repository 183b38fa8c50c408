"""Rewards for single steps of a rollout, and how they are combined with its outcome: `combine_rewards`.

Formula reward = outcome + coefficient x mean of the scores that are there. The outcome is the environment's reward r
        between two values: failed + (passed - failed) x r. Without any score the reward is the outcome alone, if the
        agent's config accepts that.
Law     a missing score enters no mean. From a stored rollout and a new verdict of its environment the new reward is
        computed (`combine_as_stored`), without a judge.
Source  OpenClaw-RL's swe-rl, where the values are -1 and 1, and a step without votes has the score 0.
"""

from math import fsum
from typing import Any

from paddock.types.records import Finite, Record, Verdict

STEP_REWARDS = "step_rewards"
"""Key of a verdict's extras."""
OUTCOME_REWARD = "outcome_reward"
"""Name of the metric with the environment's own reward, which decides whether a rollout passes."""


class OutcomeValues(Record):
    """What an outcome counts beside the scores of steps."""

    failed: Finite = 0.0
    """The value of a reward of 0."""
    passed: Finite = 1.0
    """The value of a reward of 1."""

    def of(self, reward: float) -> float:
        return self.failed + (self.passed - self.failed) * reward


class JudgedStep(Record):
    """One step of a rollout, judged or not."""

    step_id: str
    turn: int
    """The harness's number of the step, from 1."""
    turn_id: str | None = None
    """Id of the recorded turn that it is; None: the model server gave none."""
    score: Finite | None
    """Mean of the votes; None: there are none."""
    votes: list[int | None] = []
    missing: str | None = None
    """Why there is no score: `skipped` (the config leaves it out), `late`, `no_vote`, or a failure's kind."""


class StepRewards(Record):
    """The part of a rollout's reward that comes from its steps; a verdict's extras hold it."""

    coefficient: Finite = 1.0
    outcome_values: OutcomeValues = OutcomeValues()
    scores: list[JudgedStep] = []
    """All steps, in order."""

    @property
    def present_scores(self) -> list[float]:
        """The scores that are not missing."""
        return [step.score for step in self.scores if step.score is not None]

    @property
    def mean(self) -> float | None:
        return fsum(self.present_scores) / len(self.present_scores) if self.present_scores else None

    def worth(self, outcome: float, score: float | None) -> float:
        """The outcome plus one step's weighted score; None: plus the mean score, if there is one."""
        step_score = self.mean if score is None else score
        return outcome if step_score is None else outcome + self.coefficient * step_score


def combine_rewards(verdict: Verdict, steps: StepRewards) -> Verdict:
    """The environment's verdict, with the scores of the steps in its reward."""
    mean = steps.mean
    components = {"outcome": steps.outcome_values.of(verdict.reward)}
    metrics: dict[str, float] = {
        OUTCOME_REWARD: verdict.reward,
        "steps_scored": len(steps.present_scores),
        "steps_missing": sum(step.score is None and step.missing != "skipped" for step in steps.scores),
    }
    if mean is not None:
        components["steps"] = steps.coefficient * mean
        metrics["mean_step_score"] = mean
    fields: dict[str, Any] = {
        "reward": fsum(components.values()),
        "reward_components": components,
        "metrics": {**verdict.metrics, **metrics},
        "extras": {**verdict.extras, STEP_REWARDS: steps.model_dump()},
    }
    return Verdict(**{**dict(verdict), **fields})


def steps_of(verdict: Verdict | None) -> StepRewards | None:
    """The steps that a stored verdict was combined with; None: there are none. ValidationError where they can't be
    read."""
    stored = verdict.extras.get(STEP_REWARDS) if verdict else None
    return None if stored is None else StepRewards.model_validate(stored)


def combine_as_stored(verdict: Verdict, stored: Verdict | None) -> Verdict:
    """The environment's new verdict on a stored rollout, combined as the stored one was."""
    steps = steps_of(stored)
    return verdict if steps is None else combine_rewards(verdict, steps)
