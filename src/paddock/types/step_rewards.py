"""Rewards for single steps of a rollout, and how they come together with its outcome: `combined`.

Formula reward = outcome + coefficient x mean of the scores that came. The outcome is the environment's reward r between
        two values: failed + (passed - failed) x r. Where no score came, it is the outcome alone,
        if the agent's config takes that at all.
Law     a score that is missing is no number: it enters no mean. Whoever has a stored rollout and a new verdict of its
        environment gets the new reward from them (`as_stored`), without a judge.
Source  OpenClaw-RL's swe-rl, where the values are -1 and 1, and a step without votes has the score 0.
"""

from math import fsum
from typing import Any

from paddock.types.records import Finite, Record, Verdict

STEP_REWARDS = "step_rewards"
"""Key of a verdict's extras."""
OUTCOME_REWARD = "outcome_reward"
"""Name of the metric that has the environment's own reward: by it a rollout passes or does not."""


class OutcomeValues(Record):
    """What an outcome is worth beside its steps."""

    failed: Finite = 0.0
    """Of a reward of 0."""
    passed: Finite = 1.0
    """Of a reward of 1."""

    def of(self, reward: float) -> float:
        return self.failed + (self.passed - self.failed) * reward


class JudgedStep(Record):
    """One step of a rollout, judged or not."""

    step_id: str
    turn: int
    """The harness's number of it, from 1."""
    turn_id: str | None = None
    """The recorded turn that it is; None: the model server did not say."""
    score: Finite | None
    """Mean of the votes; None: it has none."""
    votes: list[int | None] = []
    missing: str | None = None
    """Why there is no score: `skipped` (the config leaves it out), `late`, `no_vote`, or a failure's kind."""


class StepRewards(Record):
    """What a rollout's reward is made of besides the environment's verdict; a verdict's extras hold it."""

    coefficient: Finite = 1.0
    outcome_values: OutcomeValues = OutcomeValues()
    scores: list[JudgedStep] = []
    """Of all steps, in order."""

    @property
    def there(self) -> list[float]:
        """The scores that came."""
        return [step.score for step in self.scores if step.score is not None]

    @property
    def mean(self) -> float | None:
        return fsum(self.there) / len(self.there) if self.there else None

    def worth(self, outcome: float, score: float | None) -> float:
        """The outcome together with one step's score; None: with the mean of those that came, if any did."""
        known = self.mean if score is None else score
        return outcome if known is None else outcome + self.coefficient * known


def combined(verdict: Verdict, steps: StepRewards) -> Verdict:
    """The environment's verdict, with the scores of the steps in its reward."""
    mean = steps.mean
    components = {"outcome": steps.outcome_values.of(verdict.reward)}
    metrics: dict[str, float] = {
        OUTCOME_REWARD: verdict.reward,
        "steps_scored": len(steps.there),
        "steps_missing": sum(step.score is None and step.missing != "skipped" for step in steps.scores),
    }
    if mean is not None:
        components["steps"] = steps.coefficient * mean
        metrics["mean_step_score"] = mean
    changed: dict[str, Any] = {
        "reward": fsum(components.values()),
        "reward_components": components,
        "metrics": {**verdict.metrics, **metrics},
        "extras": {**verdict.extras, STEP_REWARDS: steps.model_dump()},
    }
    return Verdict(**{**dict(verdict), **changed})


def steps_of(verdict: Verdict | None) -> StepRewards | None:
    """What a stored verdict was combined with; None: nothing. ValidationError where that can't be read."""
    stored = verdict.extras.get(STEP_REWARDS) if verdict else None
    return None if stored is None else StepRewards.model_validate(stored)


def as_stored(verdict: Verdict, stored: Verdict | None) -> Verdict:
    """The environment's new verdict on a stored rollout, combined as the stored one was."""
    steps = steps_of(stored)
    return verdict if steps is None else combined(verdict, steps)
