"""A run in one page: `summary.json`, and `summary.md` made of it.

Units   seconds, shares of 1; a mean over steps is over those that have the figure. A figure that nothing has is null.
Law     made of `metrics.jsonl` alone and of how the loop ended, so a resumed run is summed up whole.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from paddock.training.grpo.metrics_log import MetricsLine
from paddock.types import JsonObject

FEW = 10
"""Steps at the start and at the end that are compared."""
REWARD = "train/total_reward/mean"
ACCURACY = "validation/accuracy"
_STAGES = ("wait_s", "drain_s", "train_s", "send_s", "validate_s", "checkpoint_s")
_ERROR = "train/logprob_error"
_AGENT = "train/agent/"
_COUNT, _FAILED_RATE = "rollouts/count/", "rollouts/failed_rate/"
_GROUPS = {
    "started": "all groups that ended",
    "trained": "groups trained on",
    "lost": "groups lost",
    "slow": "groups lost as slow",
    "too_old": "groups lost as too old",
}
_GROUP_S = {
    "started": "rollouts/group_s",
    "trained": "train/group_s",
    "lost": "lost/group_s",
    "slow": "lost/slow_s",
    "too_old": "lost/too_old_s",
}


def summarise(lines: Sequence[MetricsLine], facts: JsonObject) -> JsonObject:
    """`facts`: what is known besides, put first."""
    steps = [line for line in lines if line.trained]
    rewards = _curve(steps, REWARD)
    accuracy = _curve(lines, ACCURACY)
    return {
        **facts,
        "reward_first": _mean(rewards[:FEW]),
        "reward_last": _mean(rewards[-FEW:]),
        "validation_first": accuracy[0] if accuracy else None,
        "validation_last": accuracy[-1] if accuracy else None,
        "validation_best": max(accuracy, default=None),
        "seconds": {
            "steps": sum(_curve(steps, "timing/step_s")),
            **{name.removesuffix("_s"): sum(_curve(steps, f"timing/{name}")) for name in _STAGES},
        },
        "tokens_per_s": _mean(_curve(steps, "timing/tokens_per_s")),
        "logprob_error": {which: _error(steps, which) for which in ("current", "all")},
        "staleness": {
            "mean": _mean(_curve(steps, "train/staleness/mean")),
            "max": max(_curve(steps, "train/staleness/max"), default=None),
        },
        "group_s": {name: _durations(steps, metric) for name, metric in _GROUP_S.items()},
        "failed_rate": _failed_rates(steps),
        "tokens": sum(_curve(steps, "train/tokens")),
        "samples": sum(_curve(steps, "train/samples")),
        "outcomes": _counts(steps, "train/outcome/"),
        "agents": {name: _agent(lines, name) for name in _agents(steps)},
        "masked": _counts(steps, "train/masked/"),
        "groups_dropped": sum(_curve(steps, "train/groups_dropped")),
    }


def page(summary: JsonObject, plots: Sequence[str]) -> str:
    """Markdown; `plots`: paths beside it."""
    return "\n".join([*_head(summary), "", *_table(summary), "", *(f"![{name}]({name})" for name in plots), ""])


def _head(summary: JsonObject) -> Iterator[str]:
    yield f"# {summary.get('name', 'run')}"
    yield ""
    yield f"{summary.get('steps')} steps; ended because: {summary.get('why')}. Seed {summary.get('seed')}."


def _table(summary: JsonObject) -> Iterator[str]:
    seconds, error, staleness = summary["seconds"], summary["logprob_error"], summary["staleness"]
    rows: list[tuple[str, str]] = [
        (f"mean reward, first {FEW} steps", _number(summary["reward_first"])),
        (f"mean reward, last {FEW} steps", _number(summary["reward_last"])),
        ("validation, first", _number(summary["validation_first"])),
        ("validation, last", _number(summary["validation_last"])),
        ("seconds in steps", _number(seconds["steps"])),
        *((f"seconds: {name}", _number(value)) for name, value in seconds.items() if name != "steps"),
        ("share of the policy's time that it waited", _number(summary.get("wait_share"))),
        ("tokens trained on per second", _number(summary["tokens_per_s"])),
        ("log-prob error of current tokens, mean", _number(error["current"]["mean_abs"])),
        ("log-prob error of current tokens, max", _number(error["current"]["max_abs"])),
        ("log-prob error of all tokens, mean", _number(error["all"]["mean_abs"])),
        ("staleness in versions, mean", _number(staleness["mean"])),
        ("staleness in versions, max", _number(staleness["max"])),
        *((f"rollouts: {name}", _number(count)) for name, count in summary["outcomes"].items()),
        *(
            (f"{name}: {what}", _number(value))
            for name, figures in (summary.get("agents") or {}).items()
            for what, value in figures.items()
            if value is not None
        ),
        *((f"masked: {name}", _number(count)) for name, count in summary["masked"].items()),
        *((f"groups lost: {name}", _number(count)) for name, count in (summary.get("lost") or {}).items()),
        ("groups retried", _number(summary.get("groups_retried"))),
        *(
            (f"seconds of {_GROUPS[name]}, {what}", _number(value))
            for name, figures in summary["group_s"].items()
            for what, value in figures.items()
            if value is not None
        ),
        *((f"rollouts without a verdict: {name}", _number(rate)) for name, rate in summary["failed_rate"].items()),
        ("groups dropped", _number(summary["groups_dropped"])),
    ]
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {value} |" for name, value in rows)


def _durations(steps: Sequence[MetricsLine], metric: str) -> JsonObject:
    """Means over steps; `max` is the longest of all."""
    means = {what: _mean(_curve(steps, f"{metric}/{what}")) for what in ("mean", "p50", "p95")}
    return {**means, "max": max(_curve(steps, f"{metric}/max"), default=None)}


def _failed_rates(steps: Sequence[MetricsLine]) -> JsonObject:
    """The share of the run's rollouts without a verdict, whether their groups were trained on or not: of `all`, of each
    agent and each environment."""
    names = sorted({name for step in steps for name in step.metrics if name.startswith(_COUNT)})
    rates = {}
    for count in names:
        name = count.removeprefix(_COUNT)
        failed = (
            step.metrics[count] * step.metrics[f"{_FAILED_RATE}{name}"] for step in steps if count in step.metrics
        )
        rates[name] = sum(failed) / sum(_curve(steps, count))
    return rates


def _curve(lines: Sequence[MetricsLine], name: str) -> list[float]:
    return [line.metrics[name] for line in lines if name in line.metrics]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _error(steps: Sequence[MetricsLine], which: str) -> JsonObject:
    """Between the trainer's log-probs and the engine's, over all tokens of the run."""
    prefix = f"{_ERROR}/{which}"
    weighed = [
        (step.metrics[f"{prefix}/mean_abs"], step.metrics.get(f"{prefix}/tokens", 1.0))
        for step in steps
        if f"{prefix}/mean_abs" in step.metrics
    ]
    tokens = sum(count for _, count in weighed)
    return {
        "tokens": tokens,
        "mean_abs": sum(value * count for value, count in weighed) / tokens if tokens else None,
        "max_abs": max(_curve(steps, f"{prefix}/max_abs"), default=None),
    }


def _counts(steps: Sequence[MetricsLine], prefix: str) -> JsonObject:
    """Sums of the counters below a name; those that never counted are left out."""
    names = sorted({name for step in steps for name in step.metrics if name.startswith(prefix)})
    sums = {name.removeprefix(prefix): sum(_curve(steps, name)) for name in names}
    return {name: int(value) for name, value in sums.items() if value}


def _agents(steps: Sequence[MetricsLine]) -> list[str]:
    """Names of the agents whose rows were trained on."""
    names = {name.removeprefix(_AGENT) for step in steps for name in step.metrics if name.startswith(_AGENT)}
    return sorted({name.rpartition("/total_reward/mean")[0] for name in names} - {""})


def _agent(lines: Sequence[MetricsLine], name: str) -> JsonObject:
    steps = [line for line in lines if line.trained]
    rewards = _curve(steps, f"{_AGENT}{name}/total_reward/mean")
    accuracy = _curve(lines, f"validation/agent/{name}/accuracy")
    return {
        "groups": sum(_curve(steps, f"{_AGENT}{name}/groups")),
        "reward_first": _mean(rewards[:FEW]),
        "reward_last": _mean(rewards[-FEW:]),
        "validation_first": accuracy[0] if accuracy else None,
        "validation_last": accuracy[-1] if accuracy else None,
    }


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
