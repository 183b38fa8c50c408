"""Makes a row of each sample of an inspect_ai task.

Usage   python -m paddock.resources_servers.inspect_ai.make_rows TASK [--args JSON] [--count N], in an environment with
        inspect_ai, this package and the task. TASK: as `inspect eval` names it, such as `file.py@task`.
Output  JSONL, in the task's order. `input` is for readers of the row: the task's solver makes the request.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from paddock.types import JsonObject


def rows_of(task: Any, name: str, args: JsonObject) -> Iterator[JsonObject]:
    """Yield the rows of a task of inspect_ai. Samples without an id are numbered from 1, as inspect_ai does it."""
    for number, sample in enumerate(task.dataset, 1):
        given = sample.input
        text = given if isinstance(given, str) else "\n".join(message.text for message in given)
        yield {
            "responses_create_params": {"input": text},
            "inspect_task": name,
            "inspect_args": args,
            "sample_id": number if sample.id is None else sample.id,
        }


def main() -> None:
    from inspect_ai._eval.loader import load_tasks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--args", type=json.loads, default={}, help="the task's arguments, a JSON object")
    parser.add_argument("--count", type=int, help="rows at most")
    given = parser.parse_args()
    for task in load_tasks([given.task], given.args):
        for row in islice(rows_of(task, given.task, given.args), given.count):
            sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
