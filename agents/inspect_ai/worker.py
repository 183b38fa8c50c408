"""A process that runs samples with inspect_ai, one after the other: inspect_ai runs one evaluation at a time.

Usage   python -m paddock.agents.inspect_ai.worker, in an environment with inspect_ai, openai and this package. It reads
        jobs from its standard input and writes results to its standard output; whatever else is printed goes to
        standard error.
Law     the sample is run by inspect_ai's `eval`, with the task's own solver and scorer; nothing is judged here. Its
        models are inspect_ai's client of OpenAI-compatible servers, at the endpoints of the job. Logs go to a folder
        that is removed. When its standard input ends, so does this process with its group, in the middle of a sample
        too.
        A scorer never asks the policy: one of inspect_ai's own that would is refused before the sample is run, a
        score of any other that did counts for nothing.
        A call of a model that failed, and did not succeed another time, fails the sample, whatever the task's code made
        of it: a model that gave no answer is no reward.
"""

import glob
import math
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import dropwhile
from typing import Any, Literal

from pydantic_core import to_json

from paddock.agents.inspect_ai.jobs import SampleJob, SampleModel, SampleResult
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

CUT = ("max_tokens", "model_length")
POLICY, JUDGE = "policy", "judge"
"""Services of inspect_ai's client, by which a call's event says whose model it asked."""
MAX_TEXT = 2000
GRADER = "grader"
"""The role of a model that grades, as inspect_ai's own scorers name it."""
GRADERS = ("model_graded_qa", "model_graded_fact")
"""Scorers of inspect_ai's that ask a model."""
NO_JUDGE = "name a model server by `judge` of the agent's block, which is the task's role `grader`"
LIMIT = "Cancelled by limit"
"""Error of a call that a limit of the sample has ended, as inspect_ai has it."""


def run_sample(job: SampleJob) -> SampleResult:
    """Run one sample. Raises what inspect_ai raises for a task that it can't read."""
    from inspect_ai import eval as inspect_eval
    from inspect_ai._eval.loader import load_tasks

    tasks = load_tasks([job.task], job.args)
    if job.judge is None:
        for name in _self_graders(tasks):
            return SampleResult(failed="judge", error=f"{job.task}: the scorer {name} grades by a model: {NO_JUDGE}")
    judge = None if job.judge is None else {GRADER: _client_of(JUDGE, job.judge, {})}
    with tempfile.TemporaryDirectory(prefix="paddock-inspect-") as folder:
        (log,) = inspect_eval(
            tasks,
            model=_client_of(POLICY, job.policy, job.generate),
            model_roles=judge,
            sample_id=[glob.escape(str(job.sample_id))],
            epochs=1,
            message_limit=job.message_limit,
            token_limit=job.token_limit,
            time_limit=job.time_limit_s,
            fail_on_error=False,
            log_dir=folder,
            display="none",
        )
        # Read while the folder is there: samples are read from it when they are asked for.
        samples = log.samples or []
        if not samples and log.error:
            return SampleResult(failed="task", error=f"{job.task}: {log.error.message}"[:MAX_TEXT])
        if len(samples) != 1:
            return SampleResult(failed="row", error=f"{job.task}: {len(samples)} samples are called {job.sample_id!r}")
        return read_sample(samples[0])


def _client_of(service: str, endpoint: SampleModel, generate: JsonObject) -> Any:
    from inspect_ai.model import GenerateConfig, get_model

    return get_model(
        f"openai-api/{service}/{endpoint.model}",
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        config=GenerateConfig(**{"max_retries": 1, **generate}),
        memoize=False,
    )


def _self_graders(tasks: list[Any]) -> Iterator[str]:
    """Names of scorers that would have the policy grade itself."""
    from inspect_ai._util.registry import registry_info, registry_params, registry_unqualified_name

    for task in tasks:
        roles = task.model_roles or {}
        for scorer in task.scorer or ():
            name, given = registry_unqualified_name(registry_info(scorer)), registry_params(scorer)
            role = given.get("model_role", GRADER)
            if name in GRADERS and given.get("model") is None and getattr(role, "name", role) not in roles:
                yield name


def read_sample(sample: Any) -> SampleResult:
    """Read the result from a sample of an evaluation's log."""
    if sample.error is not None:
        failed: Literal["scorer", "sample"] = "scorer" if any(map(_begins_scoring, sample.events)) else "sample"
        return SampleResult(failed=failed, error=sample.error.message[:MAX_TEXT])
    failure = _unanswered(sample.events) or _self_graded(sample.events)
    if failure is not None:
        return failure
    if not sample.scores:
        return SampleResult(failed="scorer", error="the task has no scorer, or it gave no score")
    return SampleResult(
        scores={name: value for scorer, score in sample.scores.items() for name, value in _values(scorer, score.value)},
        explanations={
            scorer: score.explanation[:MAX_TEXT] for scorer, score in sample.scores.items() if score.explanation
        },
        limit=sample.limit.type if sample.limit else None,
        is_cut=bool(sample.output.choices) and sample.output.stop_reason in CUT,
        items=list(_items(sample.messages)),
    )


def _begins_scoring(event: Any) -> bool:
    return bool(event.event == "span_begin" and event.name == "scorers")


def _unanswered(events: list[Any]) -> SampleResult | None:
    """The failure of a model's call that no later one with the same messages made good; None: there is none."""
    failures: dict[bytes, SampleResult] = {}
    failed: Literal["scorer", "sample"] = "sample"
    for event in events:
        if _begins_scoring(event):
            failed = "scorer"
        if event.event != "model":
            continue
        asked = to_json([event.model, [[message.role, message.text] for message in event.input]])
        failures.pop(asked, None)
        if event.error and event.error != LIMIT:
            text = f"the model {event.model} gave no answer: {event.error}"
            failures[asked] = SampleResult(failed=failed, error=text[:MAX_TEXT])
    return next(iter(failures.values()), None)


def _self_graded(events: list[Any]) -> SampleResult | None:
    """The failure of scorers that asked the policy; None: they did not."""
    scoring = dropwhile(lambda event: not _begins_scoring(event), events)
    if any(event.event == "model" and event.model.startswith(f"openai-api/{POLICY}/") for event in scoring):
        return SampleResult(failed="judge", error=f"a scorer asked the policy for its grade: {NO_JUDGE}")
    return None


def _values(name: str, value: Any) -> Iterator[tuple[str, float | str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _values(f"{name}/{key}", one)
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _values(f"{name}/{number}", one)
    else:
        yield name, _number(value)


def _number(value: Any) -> float | str:
    """Return a score's value as inspect_ai's `value_to_float` has it. What it does not know stays a text, and so does
    what is no finite number: `nan` is how inspect_ai has a score that was not given."""
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, value_to_float

    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    words = (CORRECT, INCORRECT, PARTIAL, NOANSWER, "yes", "no", "true", "false")
    if isinstance(value, str) and value not in words and value.lower() not in words:
        try:
            return float(value) if math.isfinite(float(value)) else value
        except ValueError:
            return value
    return float(value_to_float()(value))


def _items(messages: list[Any]) -> Iterator[JsonObject]:
    first = next((number for number, one in enumerate(messages) if one.role == "assistant"), len(messages))
    for message in messages[first:]:
        if message.role == "assistant":
            if message.text:
                yield message_item(message.text)
            for call in message.tool_calls or ():
                yield call_item(call.function, _json(call.arguments), call.id)
        elif message.role == "tool":
            yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}
        else:
            yield {"type": "message", "role": message.role, "content": message.text}


def _json(value: Any) -> str:
    return to_json(value).decode()


def _read_jobs(jobs: "queue.SimpleQueue[bytes]") -> None:
    """Take jobs until the agent has gone, in whatever way: then nothing of this process's group is left."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    with suppress(ProcessLookupError):  # it leads no group: somebody started it by hand
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def main() -> None:
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    while True:
        job = SampleJob.model_validate_json(jobs.get())
        try:
            result = run_sample(job)
        except Exception as error:  # noqa: BLE001 - whatever a task's own code raises where it is read
            # inspect_ai has no type of its own for it.
            missing = "No matches in dataset" in str(error)
            text = f"{job.task}: {type(error).__name__}: {error}"[:MAX_TEXT]
            result = SampleResult(failed="row" if missing else "task", error=text)
        results.write(result.model_dump_json().encode() + b"\n")


if __name__ == "__main__":
    main()
