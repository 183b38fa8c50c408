"""The metrics of a validation.

Law     means are over verdicts; a failed rollout is counted by its outcome and enters none of them. `pass_k`: of the
        prompts with a verdict, those that any of their rollouts solved (reward of 1 or more). `accuracy` is the mean
        reward, and so is `total_reward/mean`: recipes know it by both names.
"""

from collections import Counter
from collections.abc import Sequence

from paddock.training.core.records import Member
from paddock.training.grpo.roles import ValidationResult
from paddock.types import OUTCOMES, REWARDED


def validation_result(prompts: Sequence[Sequence[Member]]) -> ValidationResult:
    """The result of a validation. `prompts`: the rollouts of each prompt."""
    members = [member for prompt in prompts for member in prompt]
    rewards = _rewards(members)
    if not rewards:
        return ValidationResult({}, len(members), 0)
    judged = [rewards_of_prompt for prompt in prompts if (rewards_of_prompt := _rewards(prompt))]
    outcomes = Counter(member.outcome for member in members)
    mean = sum(rewards) / len(rewards)
    metrics = {"accuracy": mean, "total_reward/mean": mean, **_metrics(members)}
    if any(len(prompt) > 1 for prompt in prompts):
        metrics["pass_k"] = sum(max(rewards_of_prompt) >= 1 for rewards_of_prompt in judged) / len(judged)
    metrics |= {f"outcome/{kind}": outcomes[kind] / len(members) for kind in OUTCOMES if outcomes[kind]}
    for name in sorted({member.agent for member in members} - {""}):
        if rewards := _rewards([member for member in members if member.agent == name]):
            metrics[f"agent/{name}/accuracy"] = sum(rewards) / len(rewards)
    return ValidationResult(metrics, len(members), len(rewards))


def require_weights(member: Member, step: int) -> Member:
    """The member, if weights `step` sampled all its tokens, as far as engines say; else as failed (`infra`)."""
    versions = {span.weight_version for sample in member.samples for span in sample.spans}
    if versions <= {None, str(step)}:
        return member
    return member._replace(outcome="infra", reward=None, samples=(), reason="other_weights", metrics={})


def _rewards(members: Sequence[Member]) -> list[float]:
    return [member.reward for member in members if member.outcome in REWARDED and member.reward is not None]


def _metrics(members: Sequence[Member]) -> dict[str, float]:
    """Means of the verdicts' metrics, and of the number of turns."""
    judged = [member for member in members if member.outcome in REWARDED]
    names = sorted({name for member in judged for name in member.metrics})
    values_by_name = {name: [member.metrics[name] for member in judged if name in member.metrics] for name in names}
    means = {name: sum(values) / len(values) for name, values in values_by_name.items()}
    return {"turns_per_sample": sum(member.turns for member in judged) / len(judged), **means}
