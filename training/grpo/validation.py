"""What a validation found, in numbers.

Law     means are over verdicts; a failed rollout is counted by its outcome and enters none of them. `pass_k`: of the
        prompts with a verdict, those that any of their rollouts solved (reward of 1 or more). `accuracy` is the mean
        reward, and so is `total_reward/mean`: recipes know it by both names.
"""

from collections import Counter
from collections.abc import Sequence

from paddock.training.core.records import Member
from paddock.training.grpo.roles import Validated
from paddock.types import OUTCOMES, REWARDED


def validated(prompts: Sequence[Sequence[Member]]) -> Validated:
    """`prompts`: the rollouts of each."""
    members = [member for prompt in prompts for member in prompt]
    rewards = _rewards(members)
    if not rewards:
        return Validated({}, len(members), 0)
    judged = [given for prompt in prompts if (given := _rewards(prompt))]
    outcomes = Counter(member.outcome for member in members)
    mean = sum(rewards) / len(rewards)
    metrics = {"accuracy": mean, "total_reward/mean": mean, **_metrics(members)}
    if any(len(prompt) > 1 for prompt in prompts):
        metrics["pass_k"] = sum(max(given) >= 1 for given in judged) / len(judged)
    metrics |= {f"outcome/{kind}": outcomes[kind] / len(members) for kind in OUTCOMES if outcomes[kind]}
    return Validated(metrics, len(members), len(rewards))


def judged_of(member: Member, step: int) -> Member:
    """The member, if weights `step` sampled all of it, as far as engines say who did."""
    versions = {span.weight_version for one in member.samples for span in one.sample.spans}
    if versions <= {None, str(step)}:
        return member
    return member._replace(outcome="infra", reward=None, samples=(), reason="other_weights", metrics={})


def _rewards(members: Sequence[Member]) -> list[float]:
    return [member.reward for member in members if member.outcome in REWARDED and member.reward is not None]


def _metrics(members: Sequence[Member]) -> dict[str, float]:
    """Means of what verifiers measured, and of turns."""
    judged = [member for member in members if member.outcome in REWARDED]
    names = sorted({name for member in judged for name in member.metrics})
    given = {name: [member.metrics[name] for member in judged if name in member.metrics] for name in names}
    means = {name: sum(values) / len(values) for name, values in given.items()}
    return {"turns_per_sample": sum(member.turns for member in judged) / len(judged), **means}
