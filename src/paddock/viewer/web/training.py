"""The metrics of a training run, as its page asks for them: `metrics.jsonl` of `paddock.training.grpo.metrics_log`."""

from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from paddock.viewer.web.catalog import METRICS

MAX_LINES = 2000
"""Lines that are given at once."""


def metrics_after(folder: Path, after: int) -> dict[str, Any]:
    """Whole lines from the `after`th on: step, whether it was trained, groups, metrics. `next`: how many lines a page
    then has. A file that became shorter gives `restarted`."""
    lines: list[Any] = []
    total = 0
    try:
        with (folder / METRICS).open("rb") as file:
            total = sum(1 for _ in islice(file, after))
            for line in islice(file, MAX_LINES):
                if not line.endswith(b"\n"):
                    break
                lines.append(_line(line))
    except (FileNotFoundError, NotADirectoryError):
        pass
    restarted = total < after
    return {"lines": [] if restarted else lines, "next": 0 if restarted else after + len(lines), "restarted": restarted}


def _line(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    keys = ("step", "trained", "groups", "wall_s", "metrics")
    return {key: value.get(key) for key in keys} if isinstance(value, dict) else {}
