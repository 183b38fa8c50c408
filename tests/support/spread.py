"""Collections over machines: their rollouts compared with those of one process, and what they left behind.

`CollectedRun`  a run's folder as a test asks about it.
`use_images`    a machine sees the images of a store, and keeps what it makes of them to itself.
`left_behind`   what still runs on a machine that a collection is to have left.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from paddock.testing.machines import Machine
from paddock.types import JsonObject

OWN_IDS = re.compile(rb"\b([a-z]+)_[0-9a-f]{24}\b")
SECONDS = re.compile(rb"\b\d+\.\d+ ?s\b")
OF_A_RUN = frozenset(
    {
        "_paddock_run_id",
        "_paddock_crc32",
        "_ng_attempt_index",
        "created_at",
        "ended_at",
        "group",
        "request_hash",
        "timing",
    }
)
"""Keys whose values are of one run alone: its ids, times, and what is made of them."""
OF_ITS_TIME = frozenset({"rollouts_per_s", "seconds"})
SUPPORT = ("bash -c", "sleep 1000", "ps -e")
"""What a machine runs by itself."""
END_S = 60.0

Member = tuple[int, int]


class CollectedRun:
    """What stands in the folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rollouts: list[JsonObject] = [
            orjson.loads(line) for line in (folder / "rollouts.jsonl").read_bytes().splitlines()
        ]
        self.failures: list[JsonObject] = [
            orjson.loads(line) for line in (folder / "failures.jsonl").read_bytes().splitlines()
        ]

    def rewards(self) -> dict[Member, float]:
        return {_member(line): line["reward"] for line in self.rollouts}

    def counts(self) -> Counter[Member]:
        """Rollouts of each member: 1, where none is doubled."""
        return Counter(_member(line) for line in self.rollouts)

    def kinds(self) -> dict[str, int]:
        """Failed attempts by kind."""
        return dict(Counter(line["kind"] for line in self.failures).most_common())

    def given_up(self) -> set[Member]:
        return {(line["group_id"], line["member"]) for line in self.failures if line.get("final")}

    def records(self) -> dict[Member, JsonObject]:
        return records_of(self.folder / "rollouts.jsonl")

    def metrics(self) -> list[JsonObject]:
        """`summary.json` without times."""
        summary: list[JsonObject] = orjson.loads((self.folder / "summary.json").read_bytes())
        return [{key: value for key, value in run.items() if key not in OF_ITS_TIME} for run in summary]


def records_of(file: Path) -> dict[Member, JsonObject]:
    """Rollouts without what is of one run alone: ids are numbered in the order in which a line has them."""
    return {_member(orjson.loads(line)): _plain(line) for line in file.read_bytes().splitlines()}


def _member(line: JsonObject) -> Member:
    return line["_ng_task_index"], line["_ng_rollout_index"]


def _plain(line: bytes) -> JsonObject:
    seen: dict[bytes, bytes] = {}
    numbered = OWN_IDS.sub(lambda found: seen.setdefault(found[0], b"%s_%d" % (found[1], len(seen))), line)
    plain: JsonObject = _without(orjson.loads(SECONDS.sub(b"_s", numbered)))
    return plain


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(part) for key, part in value.items() if key not in OF_A_RUN}
    return [_without(part) for part in value] if isinstance(value, list) else value


def use_images(machine: Machine, home: Path) -> None:
    for part in ("images", "layers"):
        (machine.home / part).symlink_to(home / part)


def left_behind(machine: Machine, mine: Callable[[str], bool]) -> list[str]:
    """The command lines on the machine, none of its own nor `mine`, once they have had time to end."""
    deadline = time.monotonic() + END_S
    while True:
        if not machine.is_on:
            return []
        lines = [line.strip() for line in machine.run(["ps", "-e", "-ww", "-o", "args="]).splitlines()]
        found = [line for line in lines if not line.startswith(SUPPORT) and "<defunct>" not in line and not mine(line)]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)
