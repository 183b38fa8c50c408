"""`paddock compare`: runs, or agents and variants in them, row by row against the first.

Rows    are paired by name, or by index where they have none. A rollout without a verdict is left out and counted.
        Agents whose rewards are relative to other rollouts of a row are left out: they pass by no fixed measure.
Exit    0 compared; 2 a mistake: no such run, no such agent, no row with a reward under both.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paddock.collect.comparison import Arm
    from paddock.collect.results import RolloutResult
    from paddock.types import JsonObject

EXAMPLES = """examples:
  paddock compare runs/before runs/after               two runs; the first is the baseline
  paddock compare runs/mine:codex runs/mine:opencode   two agents, or variants of one, of a run
  paddock compare runs/a runs/b --json compared.json   all numbers, and every row that changed sides"""
SHOWN_ROWS = 20
"""Rows that changed sides, at most as many as are printed each way."""


class ComparedArm(NamedTuple):
    """One side, and what was left out of it."""

    arm: "Arm"
    n_without_verdict: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("baseline", metavar="RUN", help="folder of a run, or RUN:AGENT, or RUN:VARIANT; the baseline")
    parser.add_argument("others", nargs="+", metavar="RUN", help="what is compared with it, in the same form")
    parser.add_argument("--json", metavar="FILE", help="write all numbers and rows to a file")


def run(args: argparse.Namespace) -> int:
    import orjson

    from paddock.errors import ConfigError

    baseline, *others = (read_arm(word) for word in (args.baseline, *args.others))
    compared = [compare_with(baseline, other) for other in others]
    if args.json:
        try:
            Path(args.json).write_bytes(orjson.dumps(compared, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise ConfigError(f"{args.json}: can't be written: {error.strerror}", kind="json_unwritable") from error
    print("\n".join(_lines(baseline, others, compared)))  # noqa: T201 - this is the command's voice
    return 0


def read_arm(word: str) -> ComparedArm:
    """The rollouts that `RUN`, `RUN:AGENT` or `RUN:VARIANT` names."""
    from paddock.collect.comparison import Arm
    from paddock.collect.statistics import RowScore
    from paddock.collect.tally import REPOSITORY
    from paddock.errors import ConfigError
    from paddock.types.step_rewards import OUTCOME_REWARD
    from paddock.viewer import read_entries

    folder, colon, part = (word, "", "") if Path(word).exists() else word.rpartition(":")
    entries = read_entries(Path(folder if colon else word))
    results = [entry.result for entry in entries if not (entry.agent and entry.agent.relative)]
    if entries and not results:
        raise ConfigError(f"{word}: its rewards are relative to other rollouts of a row", kind="relative_rewards")
    if colon:
        names = sorted({name for result in results for name in _names(result)})
        results = [result for result in results if part in _names(result)]
        if not results:
            raise ConfigError(f"{folder}: no agent or variant `{part}`; it has {', '.join(names)}", kind="no_arm")
    rows: dict[str, RowScore] = {}
    repositories: dict[str, str] = {}
    for result in results:
        if result.reward is None:
            continue
        name = result.row_name or f"row {result.group_id}"
        rows[name] = rows.get(name, RowScore()).plus(result.reward, outcome=result.metrics.get(OUTCOME_REWARD))
        if REPOSITORY in result.labels:
            repositories[name] = result.labels[REPOSITORY]
    if not rows:
        raise ConfigError(f"{word}: no rollout has a verdict", kind="no_rollouts")
    return ComparedArm(Arm(word, None, rows, repositories), sum(result.reward is None for result in results))


def compare_with(baseline: ComparedArm, other: ComparedArm) -> "JsonObject":
    """All numbers of `other` against `baseline`: positive differences are in favour of `other`."""
    from paddock.collect.comparison import compare
    from paddock.errors import ConfigError

    theirs, ours = baseline.arm.rows, other.arm.rows
    found = compare(other.arm, baseline.arm)
    if found is None:
        raise ConfigError(f"{other.arm.name} and {baseline.arm.name} have no row in common", kind="no_common_rows")
    common = sorted(ours.keys() & theirs.keys())
    return {
        **found.to_json(),
        "better": [name for name in common if ours[name].share > theirs[name].share],
        "worse": [name for name in common if ours[name].share < theirs[name].share],
        "only_first": sorted(ours.keys() - theirs.keys()),
        "only_second": sorted(theirs.keys() - ours.keys()),
    }


def _names(result: "RolloutResult") -> set[str]:
    own = {result.agent} if result.agent else set()
    return own | {result.variant, f"{result.agent}/{result.variant}"} if result.variant else own


def _lines(baseline: ComparedArm, others: Sequence[ComparedArm], compared: "Sequence[JsonObject]") -> Iterator[str]:
    from paddock.collect.report import comparison_lines
    from paddock.collect.statistics import pass_table
    from paddock.viewer.blocks import visible

    for arm, n_without in (baseline, *others):
        least = min(score.n for score in arm.rows.values())
        table = pass_table(arm.rows.values()).items()
        passed = "  ".join(f"pass@{k} {value:.3f}" for k, value in table if int(k) <= least)
        yield f"{arm.name}: {len(arm.rows)} rows, {n_without} rollouts without a verdict, {passed}"
    for pair in compared:
        yield from comparison_lines([{"comparisons": [pair]}])[:-1]
        if pair["rows_needed_3_points"] is not None:
            yield f"  a difference of 0.03 needs {pair['rows_needed_3_points']} rows"
        for title in ("better", "worse", "only_first", "only_second"):
            names = pair[title]
            label = {"only_first": f"only in {pair['first']}", "only_second": f"only in {pair['second']}"}
            more = f", and {len(names) - SHOWN_ROWS} more" if len(names) > SHOWN_ROWS else ""
            if names:
                yield visible(f"  {label.get(title, title)}: {', '.join(names[:SHOWN_ROWS])}{more}")
