"""The process that asks Ray for the nodes of a cluster: `ray_lister.py ADDRESS`, an answer for each line at its stdin.

Answer  a line of JSON: `[[ADDRESS, LABEL'S VALUE], ...]` of the nodes that live and carry the label; `{"error": TEXT}`
        where there is no such cluster, and then it ends. It ends with its stdin too.
Imports nothing but Ray and Python's own: it is started as a file.
"""

import json
import logging
import os
import sys
from typing import Any, TextIO

LABEL = "paddock-sandboxes"


def main(address: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray writes of its own there
    # Ray writes of each use to its makers unless this is set before its import.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray

        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        for _ in sys.stdin:
            _say(answers, [_place(row) for row in ray.nodes() if row["Alive"] and LABEL in row["Labels"]])
    except Exception as error:  # noqa: BLE001 - what Ray raises is the answer, whatever it is
        text = str(error).strip() or type(error).__name__
        _say(answers, {"error": text.splitlines()[0]})


def _place(row: Any) -> tuple[str, str]:
    return row["NodeManagerAddress"], row["Labels"][LABEL]


def _say(answers: TextIO, answer: object) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
