"""Random draws for a row: one of several options, and the names that its tools are shown under.

Law     drawn from a seed, the row and the epoch alone: all members and attempts of a group draw the same, in every
        process, on every machine, under every version of Python; trainers compare rollouts by their prompt.
Row     identified by its stamped group; without a stamp by its task, input and metadata. Keys that begin with `_` are
        marks on a rollout, and don't count.
Names   `paddock.tools.stand_ins`: none collides with another, and `paddock.tools.canonical` leads back to the real one.
"""

import hashlib
import json
from collections.abc import Sequence

from paddock.tools import stand_ins
from paddock.types import Row


def seed_of(row: Row, seed: int, *, per_rollout: bool = False) -> bytes:
    """Return the seed of a row's draws; `per_rollout`: the seed of one member of its group."""
    stamp = row.stamp
    group = _identity(row) if stamp.group_id is None else stamp.group_id
    return _digest([seed, group, stamp.epoch, *([stamp.member] if per_rollout else [])])


def draw(weights: Sequence[float], seed: bytes) -> int:
    """Draw the index of one of several options, with a probability in proportion to its weight."""
    left = _fraction(seed, "option") * sum(weights)
    for index, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return index
    return len(weights) - 1


def shown_names(real: Sequence[str], seed: bytes, *, diversify: bool = False, camel: bool = False) -> dict[str, str]:
    """Draw the names of a whole toolbox: shown name by real name; with neither switch each tool keeps its name."""
    if not diversify and not camel:
        return {name: name for name in real}
    shown: dict[str, str] = {}
    for name in real:
        choices = stand_ins(name, real, camel=camel)
        shown[name] = choices[int(_fraction(seed, f"name of {name}") * len(choices)) if diversify else 0]
    return shown


def _identity(row: Row) -> str:
    content = [
        {key: value for key, value in row.task.items() if not key.startswith("_")},
        *(row.responses_create_params.get(key) for key in ("input", "metadata")),
    ]
    return _digest(content).hex()


def _digest(content: list[object]) -> bytes:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def _fraction(seed: bytes, what: str) -> float:
    """Draw a number in [0, 1) of 53 bits, so that it is exact."""
    digest = hashlib.sha256(seed + what.encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
