"""Aggregate metrics over verify replies, in NeMo-Gym's form.

Shapes  a reply is a flat object; its top-level numbers and booleans (and those of `verdict.metrics`) are averaged.
        Groups are the replies of one `_ng_task_index`; replies without one are groups of their own.
Law     a reply without `reward`, or with a failure class, enters no mean; it is counted in `failures`.
Source  pass@k: Chen et al. 2021, arXiv:2107.03374, equation 1, unbiased; a reply passes when its reward is 1 or more.
"""

from collections.abc import Iterator, Sequence
from math import comb
from typing import Any

from paddock.http import AggregateMetrics
from paddock.types import JsonObject
from paddock.types.step_rewards import OUTCOME_REWARD


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """Chance that at least one of `k` of `samples` draws without replacement passes; 1 <= k <= samples."""
    if not 1 <= k <= samples or not 0 <= passed <= samples:
        raise ValueError(f"pass@{k} of {samples} samples, {passed} passed")
    return 1.0 - comb(samples - passed, k) / comb(samples, k)


def aggregate(replies: Sequence[JsonObject]) -> AggregateMetrics:
    """Means per number over all replies with a reward, and pass@k over groups of at least k."""
    judged = [reply for reply in replies if _is_number(reply.get("reward")) and not reply.get("_ng_failure_class")]
    groups: dict[object, list[JsonObject]] = {}
    for index, reply in enumerate(judged):
        group = reply.get("_ng_task_index")
        groups.setdefault(("row", group) if isinstance(group, int) else ("alone", index), []).append(reply)
    agent = {f"mean/{key}": mean for key, mean in _means(judged).items()}
    smallest = min((len(members) for members in groups.values()), default=0)
    for k in sorted({1, smallest}) if groups else ():
        scores = [pass_at_k(len(members), _passed(members), k) for members in groups.values()]
        agent[f"pass@{k}/accuracy"] = sum(scores) / len(scores)
    agent["failures"] = float(len(replies) - len(judged))
    return AggregateMetrics(
        group_level_metrics=[
            {"_ng_task_index": key[1] if isinstance(key, tuple) and key[0] == "row" else None, "n": len(members)}
            | {f"mean/{name}": mean for name, mean in _means(members).items()}
            for key, members in groups.items()
        ],
        agent_metrics=agent,
        key_metrics={key: agent[key] for key in ("mean/reward", "pass@1/accuracy") if key in agent},
    )


def _passed(members: Sequence[JsonObject]) -> int:
    return sum(1 for member in members if _passing_reward(member) >= 1.0)


def _passing_reward(member: JsonObject) -> float:
    """What a reply passes by: where steps are rewarded too, the environment's own reward."""
    return dict(_numbers(member)).get(OUTCOME_REWARD, float(member["reward"]))


def _means(replies: Sequence[JsonObject]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for reply in replies:
        for key, value in _numbers(reply):
            values.setdefault(key, []).append(value)
    return {key: sum(numbers) / len(numbers) for key, numbers in values.items()}


def _numbers(reply: JsonObject) -> Iterator[tuple[str, float]]:
    for key, value in reply.items():
        if _is_number(value) and not key.startswith("_"):
            yield key, float(value)
    verdict = reply.get("verdict") or (reply.get("rollout") or {}).get("verdict")
    metrics = verdict.get("metrics") if isinstance(verdict, dict) else None
    for key, value in metrics.items() if isinstance(metrics, dict) else ():
        if _is_number(value) and key not in reply:
            yield key, float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
