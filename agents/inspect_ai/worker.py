"""A process that runs samples with inspect_ai, one after the other: inspect_ai runs one evaluation at a time.

Usage   python -m paddock.agents.inspect_ai.worker, in an environment with inspect_ai, openai and this package. It reads
        jobs from its standard input and writes results to its standard output; whatever else is printed goes to
        standard error.
Law     the sample is run by inspect_ai's `eval`, with the task's own solver and scorer; nothing is judged here. Its
        model is inspect_ai's client of OpenAI-compatible servers, at the rollout's URL. Logs go to a folder that is
        removed.
"""

import glob
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from paddock.agents.inspect_ai.jobs import SampleJob, SampleResult
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

CUT = ("max_tokens", "model_length")
SERVICE = "paddock"
MAX_TEXT = 2000


def run_sample(job: SampleJob) -> SampleResult:
    """Run one sample. Raises what inspect_ai raises for a task that it can't read."""
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import GenerateConfig, get_model

    model = get_model(
        f"openai-api/{SERVICE}/{job.model}",
        base_url=job.base_url,
        api_key=job.api_key,
        config=GenerateConfig(**{"max_retries": 1, **job.generate}),
        memoize=False,
    )
    with tempfile.TemporaryDirectory(prefix="paddock-inspect-") as folder:
        (log,) = inspect_eval(
            job.task,
            model=model,
            task_args=job.args,
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


def read_sample(sample: Any) -> SampleResult:
    """Read the result from a sample of an evaluation's log."""
    if sample.error is not None:
        scoring = any(event.event == "span_begin" and event.name == "scorers" for event in sample.events)
        return SampleResult(failed="scorer" if scoring else "sample", error=sample.error.message[:MAX_TEXT])
    if not sample.scores:
        return SampleResult(failed="scorer", error="the task has no scorer, or it gave no score")
    return SampleResult(
        scores={name: value for scorer, score in sample.scores.items() for name, value in _values(scorer, score.value)},
        explanations={
            scorer: score.explanation[:MAX_TEXT] for scorer, score in sample.scores.items() if score.explanation
        },
        limit=sample.limit.type if sample.limit else None,
        is_cut=sample.output.stop_reason in CUT,
        items=list(_items(sample.messages)),
    )


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
    """Return a score's value as inspect_ai's `value_to_float` has it; a text that it does not know stays one."""
    from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, value_to_float

    words = (CORRECT, INCORRECT, PARTIAL, NOANSWER, "yes", "no", "true", "false")
    if isinstance(value, str) and value not in words and value.lower() not in words:
        try:
            return float(value)
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
    from pydantic_core import to_json

    return to_json(value).decode()


def main() -> None:
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        job = SampleJob.model_validate_json(line)
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
