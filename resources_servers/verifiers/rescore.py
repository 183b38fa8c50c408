"""The rewards of a stored trace, computed again by verifiers and the environment in this process.

Law     only rewards that are functions of the task and the trace are: no runtime, no judge, no state beside the trace,
        nothing that the environment's own `run` or `finalize` gave. For all others `NotComputed` says why not.
"""

from typing import Any, NamedTuple

from paddock.types import JsonObject

NEEDED = "python with verifiers and the environment, with its folder on PYTHONPATH"


class NotComputed(Exception):  # noqa: N818 - an answer, not an error
    """The rewards can't be had from the trace; says why."""


class Scores(NamedTuple):
    """What the environment's functions gave."""

    rewards: dict[str, JsonObject]
    metrics: dict[str, float]


async def rescore(environment: str, data: JsonObject, record: JsonObject) -> Scores:
    """The rewards and metrics of a record's trace. Raises what a reward raises."""
    try:
        from verifiers.v1 import SingleAgentEnv
        from verifiers.v1.state import State, state_cls
        from verifiers.v1.utils.loaders import environment_class, task_type, taskset_config_type

        task_class = task_type(environment)
    except ImportError as error:
        raise NotComputed(f"not computed again without {NEEDED} ({error})") from None
    if environment_class(environment) is not SingleAgentEnv or record.get("other_traces"):
        raise NotComputed("the environment has a `run` or `finalize` of its own")
    if state_cls(task_class) is not State:
        raise NotComputed("the task has state beside its trace")
    config = taskset_config_type(environment).model_validate(record["taskset"])
    task = task_class(task_class.data_type().model_validate(data), config.task)
    if task.plugged_judges():
        raise NotComputed("a judge gave a part of it")
    trace = _read(record["traces"][0])
    stored = dict(trace.rewards)
    trace.rewards, trace.metrics, trace.extra_usage = {}, {}, []
    await task.score(trace)
    if set(trace.rewards) != set(stored):
        missing = ", ".join(sorted(set(stored) ^ set(trace.rewards)))
        raise NotComputed(f"it is no function of the trace alone: {missing}")
    rewards = {name: _dumped(reward) for name, reward in trace.rewards.items()}
    return Scores(rewards, {name: value for name, value in trace.metrics.items() if value is not None})


def _read(stored: JsonObject) -> Any:
    from verifiers.v1 import WireTrace

    fields = {name: value for name, value in stored.items() if name in WireTrace.model_fields}
    return WireTrace.model_validate(fields)


def _dumped(reward: Any) -> Any:
    return None if reward is None else reward.model_dump(mode="json")
