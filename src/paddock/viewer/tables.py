"""Runs as tables for scripts and notebooks: rollouts, turns, failures; and one rollout as a notebook shows it.

Units   seconds; tokens; characters. `reward` is None where there is no verdict: such a rollout enters no mean.
Errors  ConfigError: nothing matches, no run there, or pandas is missing where it is asked for.
"""

from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from html import escape
from pathlib import Path
from typing import Any

from paddock.collect.folder import FAILURES
from paddock.collect.recovery import read_failures
from paddock.errors import ConfigError
from paddock.types.responses import calls
from paddock.viewer.blocks import PAGE_LIMITS, Block
from paddock.viewer.entries import Entry, load, read_entries
from paddock.viewer.page import page
from paddock.viewer.rollout import entry_blocks, title
from paddock.viewer.selection import select_rollout

SHOWN_ROWS = 20
"""Rows of a table that a notebook shows."""
FRAME_HEIGHT = "700"
"""Pixels of a rollout in a notebook."""


class RecordTable(list[dict[str, Any]]):
    """Records with the same keys, in order."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame. ConfigError: pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise ConfigError("pandas is not installed: pip install pandas", kind="pandas_missing") from None
        return pandas.DataFrame.from_records(list(self))

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no records</p>"
        head = "".join(f"<th>{escape(str(key))}</th>" for key in self[0])
        rows = ["".join(f"<td>{escape(str(value))}</td>" for value in one.values()) for one in self[:SHOWN_ROWS]]
        left = f"<p>{len(self)} records</p>" if len(self) > SHOWN_ROWS else ""
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{left}"


class RunTables:
    """Some runs; each table is read anew when it is asked for."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __repr__(self) -> str:
        return f"RunTables({', '.join(map(str, self.paths))})"

    @property
    def rollouts(self) -> RecordTable:
        """A record for each rollout: who ran it, how it ended, its reward, cost, labels and metrics."""
        return _same_keys(_rollout_record(path, entry) for path in self.paths for entry in read_entries(path))

    @property
    def turns(self) -> RecordTable:
        """A record for each recorded call of the model: its tokens, tools, weights, and what it continues. Every stored
        rollout is read."""
        return _same_keys(
            record for path in self.paths for entry in read_entries(path) for record in _turn_records(path, entry)
        )

    @property
    def failures(self) -> RecordTable:
        """A record for each attempt that gave no verdict, whatever became of the rollout."""
        return _same_keys(
            {"run": str(path), **failed.model_dump(exclude={"timing", "usage"}), "total_s": failed.timing.total_s}
            for path in self.paths
            if path.is_dir()
            for failed in read_failures(path / FAILURES)
        )


class ShownRollout:
    """One rollout: a notebook shows its task, turns, patch, tests and verdict."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __repr__(self) -> str:
        return title(self.entry)

    def _repr_html_(self) -> str:
        def part() -> list[Block]:
            return entry_blocks(self.entry, PAGE_LIMITS)

        text = b"".join(page(title(self.entry), [part])).decode()
        # Not even the page's own policy is relied on: the frame runs no script.
        return f'<iframe sandbox srcdoc="{escape(text)}" width="100%" height="{FRAME_HEIGHT}"></iframe>'


def runs(*patterns: str | Path) -> RunTables:
    """The runs at some paths, folders or files of rollouts; a pattern (`runs/*`) means those that hold a run."""
    paths: dict[Path, None] = {}
    for pattern in patterns:
        text = str(pattern)
        # `Path.glob` takes no absolute pattern.
        matching = [Path(name) for name in sorted(glob(text))] if has_magic(text) else [Path(text)]  # noqa: PTH207
        found = [path for path in matching if not has_magic(text) or _is_run(path)]
        if not found:
            raise ConfigError(f"{text}: matches no run", kind="no_runs")
        paths |= dict.fromkeys(found)
    return RunTables(list(paths))


def show(run: str | Path, wanted: str | int) -> ShownRollout:
    """A rollout of a run, for a notebook. `wanted`: a row's index, `index-member`, or the row's own name."""
    return ShownRollout(select_rollout(Path(run), str(wanted)))


def _is_run(path: Path) -> bool:
    return path.suffix == ".jsonl" or (path / "rollouts.jsonl").exists()


def _rollout_record(path: Path, entry: Entry) -> dict[str, Any]:
    result = entry.result
    timing = result.timing.model_dump()
    return {
        "run": str(path),
        "group": result.group_id,
        "member": result.member,
        "name": result.row_name or result.uuid,
        "agent": result.agent,
        "harness": entry.harness,
        "outcome": result.outcome,
        "reward": result.reward,
        "reason": result.reason,
        "ended": result.ended,
        "turns": result.turns,
        "input_tokens": result.usage.input_tokens,
        "output_tokens": result.usage.output_tokens,
        "cached_tokens": result.usage.cached_tokens,
        "reasoning_tokens": result.usage.reasoning_tokens,
        "cost_usd": result.cost_usd,
        "ended_at": result.ended_at,
        **timing,
        "failure": entry.failed and entry.failed.kind,
        **{f"label/{name}": value for name, value in result.labels.items()},
        **{f"metric/{name}": value for name, value in result.metrics.items()},
    }


def _turn_records(path: Path, entry: Entry) -> Iterator[dict[str, Any]]:
    rollout = load(entry)
    if rollout is None:
        return
    positions = {turn.id: nth for nth, turn in enumerate(rollout.turns)}
    for nth, turn in enumerate(rollout.turns):
        yield {
            "run": str(path),
            "group": entry.result.group_id,
            "member": entry.result.member,
            "name": entry.result.row_name,
            "turn": nth,
            "parent": positions.get(turn.parent or ""),
            "tools": [call.name for call in calls(turn.output)],
            "prompt_tokens": None if turn.prompt_ids is None else len(turn.prompt_ids),
            "sampled_tokens": None if turn.sampled_ids is None else len(turn.sampled_ids),
            "input_tokens": turn.usage.input_tokens if turn.usage else None,
            "output_tokens": turn.usage.output_tokens if turn.usage else None,
            "cached_tokens": turn.usage.cached_tokens if turn.usage else None,
            "reasoning_tokens": turn.usage.reasoning_tokens if turn.usage else None,
            "finish_reason": turn.finish_reason,
            "weight_version": turn.weight_version,
        }


def _same_keys(records: Iterator[dict[str, Any]]) -> RecordTable:
    """Every record with every key, in the order in which keys first came; None where a record had none."""
    listed = list(records)
    keys = dict.fromkeys(key for record in listed for key in record)
    return RecordTable({key: record.get(key) for key in keys} for record in listed)
