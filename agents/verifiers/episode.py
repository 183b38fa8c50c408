"""One episode of an environment, run by verifiers in a process of its own (`host`).

Gets    a job: the task's data, and where the model is.
Sends   `{"stage": ...}` as the episode enters one, at last `{"record": ...}`: verifiers' own records of all seats'
        traces, its errors, and the config of the taskset, from which the rewards can be computed again; or
        `{"row_error": ...}` for data that is not of the taskset's type.
"""

import os
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from verifiers.v1 import Episode, Trace
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_environment, task_type

from paddock.agents.verifiers.settings import MODEL_KEY, OTHERS_KEY, Seats, read_settings

STAGES = ("boot", "setup", "agent", "finalize", "scoring")
"""Of a trace's timing, in their order."""
Send = Callable[[dict[str, Any]], None]


async def run_job(settings: dict[str, Any], job: dict[str, Any], send: Send) -> None:
    """Run the episode of a job."""
    seat, others = job["seat"], job["others"] or {}
    os.environ[MODEL_KEY], os.environ[OTHERS_KEY] = seat["key"], others.get("key", "")
    seats = read_settings(settings, others.get("url"))
    task_class = task_type(settings["environment"])
    try:
        data = task_class.data_type().model_validate(job["data"])
    except ValidationError as error:
        send({"row_error": str(error)})
        return
    env = load_environment(seats.config)
    client = EvalClientConfig(base_url=seat["url"], api_key_var=MODEL_KEY)
    context = ModelContext(model=job["model"], client=client, sampling=SamplingConfig())
    async with env.serving():
        task = task_class(data, seats.config.taskset.task)
        episode = await env.run_episode(task, context, on_trace=lambda trace: trace.watch(_stage_sender(send)))
    send({"record": _record(episode, seats)})


def _stage_sender(send: Send) -> Callable[[Trace], None]:
    sent = {""}

    def on_change(trace: Trace) -> None:
        stage = next((name for name in reversed(STAGES) if getattr(trace.timing, name).start), "boot")
        if stage not in sent:
            sent.add(stage)
            send({"stage": stage})

    return on_change


def _record(episode: Episode, seats: Seats) -> dict[str, Any]:
    traces = [(trace.agent.name, {**trace.to_record(), "is_truncated": trace.is_truncated}) for trace in episode.traces]
    return {
        "ok": episode.ok,
        "is_timeout": episode.is_timeout,
        "errors": [error.model_dump(mode="json") for error in episode.errors],
        "traces": [trace for name, trace in traces if name == seats.seat],
        "other_traces": [trace for name, trace in traces if name != seats.seat],
        "taskset": seats.config.taskset.model_dump(mode="json"),
    }
