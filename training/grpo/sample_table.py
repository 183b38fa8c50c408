"""A table of sampled rollouts of each step, for trackers: how they ended, and where to look at them.

Sampled by the step's number: a run that goes on from a checkpoint has the same ones again. Those that failed are among
        them.
Link    to the rollout's page of `paddock view` where `logger.view_url` says where that is; else the command that shows
        it in a terminal.
"""

import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from paddock.training.core.records import Batch, Group, Member

SPECIAL = "\\`*_[]<>|"
"""Characters that Markdown reads: names of rows and agents are shown as they are."""
RUNS = "runs"
"""The folder that `paddock view` shows where none is named."""


class SampledRollout(NamedTuple):
    """A line of the table; its fields are the columns."""

    rollout: str
    """`GROUP-MEMBER`, as in `index.jsonl`."""
    row: str
    """The row's name; its index in the dataset where no sample says one."""
    agent: str
    outcome: str
    reward: float | None
    """None: there is no verdict."""
    reason: str
    turns: int
    tokens: int
    """Sampled ones that may be trained on."""
    seconds: float
    link: str


class RolloutLinks:
    """Where the rollouts of a run are shown."""

    def __init__(self, view_url: str | None, out: Path) -> None:
        self._view_url = view_url.rstrip("/") if view_url is not None else None
        self._out = out

    def link(self, rollout: str) -> str:
        if self._view_url is None:
            return f"paddock show {shlex.quote(str(self._out))} {rollout}"
        return f"{self._view_url}/#/rollout?{urlencode({'run': self._run_id(), 'at': rollout})}"

    def _run_id(self) -> str:
        """The run's id in a view of the folder `runs` that it is below; else of its own parent."""
        parts = self._out.resolve().parts
        above = parts[:-1]
        first = len(above) - 1 - above[::-1].index(RUNS) if RUNS in above else len(parts) - 2
        return "/".join(parts[max(first, 0) :])


def sample_rollouts(batch: Batch, count: int, links: RolloutLinks) -> list[SampledRollout]:
    """At most `count` rollouts of a step, in the order of its groups."""
    ended = [(group, member) for group in batch.groups for member in group.members]
    chosen = random.Random(batch.step).sample(range(len(ended)), min(count, len(ended)))
    return [_line(*ended[index], links) for index in sorted(chosen)]


def _line(group: Group, member: Member, links: RolloutLinks) -> SampledRollout:
    rollout = f"{group.id}-{member.nth}"
    name = next((sample.row for sample in member.samples if sample.row), None)
    return SampledRollout(
        rollout=rollout,
        row=name or str(group.row),
        agent=member.agent,
        outcome=member.outcome,
        reward=member.reward,
        reason=member.reason or "",
        turns=member.turns,
        tokens=sum(int(sample.loss_mask.sum()) for sample in member.samples),
        seconds=round(member.total_s, 1),
        link=links.link(rollout),
    )


def markdown_table(samples: Sequence[SampledRollout]) -> str:
    """The table in Markdown; the rollout's name is its link, where that is an address."""
    columns = SampledRollout._fields[:-1]
    lines = [f"| {' | '.join(columns)} | |", f"|{'---|' * (len(columns) + 1)}"]
    for sample in samples:
        is_address = sample.link.startswith("http")
        name = f"[{sample.rollout}]({sample.link})" if is_address else sample.rollout
        cells = [name, *map(_cell, sample[1:-1]), "" if is_address else f"`{sample.link}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else "".join(f"\\{char}" if char in SPECIAL else char for char in str(value))
