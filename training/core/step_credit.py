"""The reward and the advantage of each sample of a group: `sample_credits`.

Rollout a sample has its rollout's reward and advantage. So it is for all samples where `step_credit` is off, and for
        those of turns that are no steps (a sub-agent's, a title) where it is on.
Step    the reward of step n is outcome + coefficient x its score, or x the rollout's mean where its score is missing; a
        rollout without any score has its outcome. It is compared with the n-th steps of the group's other rollouts,
        which are a group of their own (`advantages`): alike, or alone, they have the advantage 0.
Law     a step enters its baseline whether or not its tokens can be trained on; a rollout without a reward never does.
Source  `step_wise` of OpenClaw-RL's swe-rl. There a missing score is 0, and places are counted among scores that came;
        here they are the harness's own numbers, so that nothing shifts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddock.training.core.advantages import advantages
from paddock.training.core.records import Member, StepCredit
from paddock.training.core.settings import GrpoSettings
from paddock.types import Verdict
from paddock.types.step_rewards import steps_of


class Credit(NamedTuple):
    """The reward and the advantage of one sample."""

    reward: float
    advantage: float


def step_credits(verdict: Verdict | None) -> tuple[StepCredit, ...]:
    """The steps of a rollout with their rewards, each number once; empty where no judge scored them."""
    steps = steps_of(verdict)
    if verdict is None or steps is None:
        return ()
    outcome = verdict.reward_components["outcome"]
    by_number: dict[int, StepCredit] = {}
    for step in steps.scores:
        by_number.setdefault(step.turn, StepCredit(step.turn, step.turn_id, steps.worth(outcome, step.score)))
    return tuple(by_number.values())


def sample_credits(
    members: Sequence[Member],
    grpo: GrpoSettings,
    *,
    batch_std: float | None = None,
    rollout_advantages: Sequence[float | None] | None = None,
) -> list[list[Credit] | None]:
    """The credits of each member's samples, in order; None for a member without a reward. `batch_std`: see
    `advantages`; `rollout_advantages`: those of the members, where another rule has made them."""
    if rollout_advantages is None:
        rollout_advantages = advantages([member.reward for member in members], grpo, batch_std=batch_std)
    by_step = _by_step(members, grpo, batch_std)
    return [
        None
        if member.reward is None or advantage is None
        else _credits(member, Credit(member.reward, advantage), by_step[nth])
        for nth, (member, advantage) in enumerate(zip(members, rollout_advantages, strict=True))
    ]


def _credits(member: Member, whole: Credit, by_step: Mapping[int, Credit]) -> list[Credit]:
    by_turn = {step.turn_id: by_step[step.step] for step in member.steps if step.turn_id is not None}
    turns = ([span.turn for span in sample.spans if span.trained] for sample in member.samples)
    return [next((by_turn[turn] for turn in trained if turn in by_turn), whole) for trained in turns]


def _by_step(members: Sequence[Member], grpo: GrpoSettings, batch_std: float | None) -> list[dict[int, Credit]]:
    """For each member the credits of its steps, by number."""
    credits_by_member: list[dict[int, Credit]] = [{} for _ in members]
    rewards_by_step: dict[int, dict[int, float]] = {}
    for nth, member in enumerate(members):
        for step in member.steps if member.reward is not None else ():
            rewards_by_step.setdefault(step.step, {})[nth] = step.reward
    for number, rewards in rewards_by_step.items():
        step_advantages = advantages(list(rewards.values()), grpo, batch_std=batch_std)
        for (nth, reward), advantage in zip(rewards.items(), step_advantages, strict=True):
            credits_by_member[nth][number] = Credit(reward, advantage or 0.0)
    return credits_by_member
