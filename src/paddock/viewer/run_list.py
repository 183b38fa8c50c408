"""The list of a run's rollouts: a line each, and their counts."""

from collections.abc import Iterable, Iterator

from paddock.viewer.blocks import Tone, visible
from paddock.viewer.entries import Entry
from paddock.viewer.rollout import tone_of

COLUMNS = (
    *(("row", 9), ("reward", 7), ("outcome", 10), ("turns", 6), ("harness", 16), ("agent", 16)),
    *(("instance", 40), ("reason", 0)),
)
"""Names and widths in characters; 0: any width."""


class RunCounts:
    """Counts of the rollouts in a list."""

    def __init__(self) -> None:
        self.passed = 0
        self.others = 0
        self.penalised = 0
        self.without = 0

    def add(self, entry: Entry) -> None:
        if entry.result.reward is None:
            self.without += 1
        elif entry.rewarded:
            self.passed += 1
        elif entry.result.reward < 0:
            self.penalised += 1
        else:
            self.others += 1

    def __str__(self) -> str:
        total = self.passed + self.others + self.penalised + self.without
        parts = [f"{self.passed} with a reward", f"{self.others} with reward 0"]
        parts += [f"{self.penalised} below 0"] if self.penalised else []
        return f"{total} rollouts: {', '.join(parts)}, {self.without} without one"


def header() -> str:
    return _row(name for name, _ in COLUMNS)


def list_line(entry: Entry) -> str:
    result = entry.result
    reward = "-" if result.reward is None else f"{result.reward:g}"
    why = result.reason or (f"{entry.failed.kind}: {entry.failed.message}" if entry.failed else "-")
    who = entry.harness or "-", result.agent or "-"
    cells = (entry.member_id, reward, result.outcome, str(result.turns), *who, entry.name or "-", why)
    return _row(" ".join(visible(cell).split()) for cell in cells)


def list_lines(entries: Iterable[Entry]) -> Iterator[tuple[str, Tone]]:
    """The header, a line per rollout, and the counts."""
    counts = RunCounts()
    yield header(), "strong"
    for entry in entries:
        counts.add(entry)
        yield list_line(entry), tone_of(entry)
    yield str(counts), "strong"


def _row(cells: Iterable[str]) -> str:
    text = ""
    for cell, (_, width) in zip(cells, COLUMNS, strict=True):
        text += cell[:160] if not width else f"{cell:<{width - 1}} "
    return text.rstrip()
