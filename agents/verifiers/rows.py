"""`python -m paddock.agents.verifiers.rows ENVIRONMENT`: writes a row for each task of a taskset, as JSONL.

Runs under the interpreter that has verifiers and the environment.
Row     `id`, `environment`, `task_data`; `good_turns` with `--answer`. A row is complete: no run of it loads the
        taskset.
Errors  exit 2 with a line on stderr for an environment that can't be loaded, an endless taskset without `--count`, and
        a task whose data is not the same after a way through JSON.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from paddock.errors import ConfigError
from paddock.types import JsonObject


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    sys.path[:0] = [str(Path(folder).resolve()) for folder in options.path]
    try:
        for row in rows(options.environment, options.taskset, options.count, options.seed, options.answer):
            sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
    except (ConfigError, ImportError, ValidationError) as error:
        sys.stderr.write(f"{options.environment}: {error}\n")
        return 2
    sys.stdout.flush()
    return 0


def rows(
    environment: str, taskset: JsonObject, count: int | None, seed: int | None, answer: str | None
) -> Iterator[JsonObject]:
    """The rows of a taskset; the arguments are those of the command."""
    from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

    config = taskset_config_type(environment).model_validate({**taskset, "id": environment})
    tasks: Any = load_taskset(config)
    if count is None and not tasks.bounded:
        raise ConfigError("the taskset is endless: say how many by --count", kind="endless")
    if seed is not None and tasks.bounded:
        tasks = tasks.shuffle(seed)
    for task in tasks if count is None else tasks.take(count):
        data = _changed(task.data)
        if type(task.data).model_validate(data) != task.data:
            raise ConfigError(f"task {task.data.idx}: its data is not the same after JSON", kind="task_not_json")
        good = {"good_turns": [answer.format(**data)]} if answer else {}
        name = task.data.id or task.data.name or task.data.idx
        yield {"id": f"{environment}/{name}", "environment": environment, "task_data": data, **good}


def _changed(data: Any) -> JsonObject:
    """The data as JSON, without fields of its own that are as their class has them. What is inside stays whole: the
    role of a message is a default, too."""
    dumped: JsonObject = data.model_dump(mode="json")
    fields = type(data).model_fields
    return {
        name: value
        for name, value in dumped.items()
        if name not in fields or getattr(data, name) != fields[name].get_default(call_default_factory=True)
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m paddock.agents.verifiers.rows", description=__doc__)
    parser.add_argument("environment", help="the taskset's id")
    parser.add_argument(
        "--taskset", type=orjson.loads, default={}, help="its config, as JSON; the agent's block has it too"
    )
    parser.add_argument("--path", action="append", default=[], help="a folder with the environment's modules")
    parser.add_argument("--count", type=int, help="how many tasks; all where it is not said")
    parser.add_argument("--seed", type=int, help="shuffle the tasks; an endless taskset is not")
    parser.add_argument("--answer", help="a good answer, with fields of the task's data in braces: '{answer}'")
    return parser


if __name__ == "__main__":
    sys.exit(main())
