"""`paddock compare`: runs, or agents and variants in them, row by row against the first.

Rows    are paired by name, or by index where they have none. A rollout without a verdict is left out and counted.
        Agents whose rewards are relative to other rollouts of a row are left out, and their rollouts counted: they
        pass by no fixed measure.
Exit    0 compared; 2 a mistake: no such run, no such agent, no row with a reward under both.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from paddock.collect.budgets import BudgetRow, VerdictCost
    from paddock.collect.comparison import Arm
    from paddock.collect.results import RolloutResult
    from paddock.types import JsonObject
    from paddock.viewer import Block
    from paddock.viewer.tabular import TextTable

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
    n_relative: int
    costs: "dict[str, list[VerdictCost]]"
    """By row; of the rollouts with a verdict."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("baseline", metavar="RUN", help="folder of a run, or RUN:AGENT, or RUN:VARIANT; the baseline")
    parser.add_argument("others", nargs="+", metavar="RUN", help="what is compared with it, in the same form")
    parser.add_argument("--json", metavar="FILE", help="write all numbers and rows to a file")
    parser.add_argument("--html", metavar="FILE", help="write one HTML file that needs nothing else")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables in Markdown")
    parser.add_argument("--latex", metavar="FILE", help="write the tables in LaTeX (needs booktabs)")


def run(args: argparse.Namespace) -> int:
    import orjson

    from paddock.viewer import page
    from paddock.viewer.tabular import latex, markdown

    arms = [read_arm(word) for word in (args.baseline, *args.others)]
    compared = [compare_with(arms[0], other) for other in arms[1:]]
    tables = comparison_tables(arms, compared)
    if args.json:
        budgets = [row._asdict() for row in _budgets(arms)]
        named = {"arms": [one.arm.name for one in arms], "comparisons": compared, "budgets": budgets}
        _write(args.json, orjson.dumps(named, option=orjson.OPT_INDENT_2) + b"\n")
    if args.html:
        _write(args.html, b"".join(page("Comparison", [lambda: _blocks(tables, compared)])))
    for file, form in ((args.markdown, markdown), (args.latex, latex)):
        if file:
            _write(file, "\n".join(map(form, tables)).encode())
    print("\n".join(_lines(arms, compared)))  # noqa: T201 - this is the command's voice
    return 0


def _write(file: str, data: bytes) -> None:
    from paddock.errors import ConfigError

    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{file}: can't be written: {error.strerror or error}", kind="file_unwritable") from error


def read_arm(word: str) -> ComparedArm:
    """The rollouts that `RUN`, `RUN:AGENT` or `RUN:VARIANT` names."""
    from paddock.collect.budgets import cost_of
    from paddock.collect.comparison import Arm
    from paddock.collect.statistics import RowScore
    from paddock.collect.tally import REPOSITORY
    from paddock.errors import ConfigError
    from paddock.types.step_rewards import OUTCOME_REWARD
    from paddock.viewer import read_entries

    folder, colon, part = (word, "", "") if Path(word).exists() else word.rpartition(":")
    entries = read_entries(Path(folder if colon else word))
    results = [entry.result for entry in entries if not (entry.agent and entry.agent.relative)]
    n_absolute = len(results)
    if entries and not results:
        raise ConfigError(f"{word}: its rewards are relative to other rollouts of a row", kind="relative_rewards")
    if colon:
        names = sorted({name for result in results for name in _names(result)})
        results = [result for result in results if part in _names(result)]
        if not results:
            raise ConfigError(f"{folder}: no agent or variant `{part}`; it has {', '.join(names)}", kind="no_arm")
    rows: dict[str, RowScore] = {}
    costs: dict[str, list[VerdictCost]] = {}
    repositories: dict[str, str] = {}
    for result in results:
        if result.reward is None:
            continue
        name = result.row_name or f"row {result.group_id}"
        rows[name] = rows.get(name, RowScore()).plus(result.reward, outcome=result.metrics.get(OUTCOME_REWARD))
        costs.setdefault(name, []).append(cost_of(result))
        if REPOSITORY in result.labels:
            repositories[name] = result.labels[REPOSITORY]
    if not rows:
        raise ConfigError(f"{word}: no rollout has a verdict", kind="no_rollouts")
    n_without = sum(result.reward is None for result in results)
    return ComparedArm(Arm(word, None, rows, repositories), n_without, len(entries) - n_absolute, costs)


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


def comparison_tables(arms: Sequence[ComparedArm], compared: "Sequence[JsonObject]") -> "list[TextTable]":
    """The arms, each against the first, and what they reach within budgets."""
    from paddock.viewer.tabular import TextTable

    ks = sorted({k for one in arms for k in _passed(one)}, key=int)
    rates = [[_number(_passed(one).get(k)) for k in ks] for one in arms]
    usd = [_usd_each(one) for one in arms]
    priced = any(usd)
    head = [[one.arm.name, str(len(one.arm.rows)), str(one.n_without_verdict)] for one in arms]
    head = [[*row, *([text] if priced else [])] for row, text in zip(head, usd, strict=True)]
    pairs = [
        [
            *(f"{pair['first']} - {pair['second']}", str(pair["n_rows"]), f"{pair['difference']:+.3f}"),
            "" if pair["ci95"] is None else f"[{pair['ci95'][0]:+.3f}, {pair['ci95'][1]:+.3f}]",
            "too few repositories" if pair["p_value"] is None else f"{pair['p_value']:.2g}",
            *(str(pair["n_first_better"]), str(pair["n_second_better"])),
            *("" if pair[key] is None else str(pair[key]) for key in ("rows_needed", "rows_needed_3_points")),
        ]
        for pair in compared
    ]
    within = [[f"{_amount(row.budget)} {row.kind}", *map(_number, row.shares)] for row in _budgets(arms)]
    return [
        TextTable(
            "Solved",
            ["arm", "rows", "without a verdict", *(["cost each"] if priced else []), *(f"pass@{k}" for k in ks)],
            [*map(list.__add__, head, rates)],
        ),
        TextTable(
            "Differences, row by row",
            ["pair", "rows", "difference", "95 %", "p", "better", "worse", "rows needed", "for 0.03"],
            pairs,
        ),
        TextTable("Solved within a budget", ["budget", *(one.arm.name for one in arms)], within),
    ]


def _budgets(arms: Sequence[ComparedArm]) -> "list[BudgetRow]":
    from paddock.collect.budgets import budget_table

    return budget_table([one.costs for one in arms])


def _usd_each(one: ComparedArm) -> str:
    """The mean cost of a rollout; empty: that of some is not known."""
    from paddock.collect.prices import usd_text

    costs = [cost.costs.get("USD") for row in one.costs.values() for cost in row]
    known = [cost for cost in costs if cost is not None]
    return usd_text(sum(known) / len(known)) if len(known) == len(costs) else ""


def _passed(one: ComparedArm) -> dict[str, float]:
    """pass@k, by k, up to the fewest rollouts of a row."""
    from paddock.collect.statistics import pass_table

    least = min(score.n for score in one.arm.rows.values())
    return {k: value for k, value in pass_table(one.arm.rows.values()).items() if int(k) <= least}


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _blocks(tables: "Sequence[TextTable]", compared: "Sequence[JsonObject]") -> "list[Block]":
    from paddock.viewer.blocks import Cell, Fold, Grid, Heading, TextBlock

    blocks: list[Block] = []
    for table in tables:
        rows = [[Cell(text) for text in row] for row in table.rows]
        blocks += [Heading(table.title), Grid(list(table.header), rows)]
    for pair in compared:
        for title, names in _changed(pair):
            blocks.append(Fold(f"{title}: {len(names)} rows", [TextBlock("\n".join(names))], open=False))
    return blocks


def _changed(pair: "JsonObject") -> Iterator[tuple[str, list[str]]]:
    """The rows that changed sides, and those of one side alone, each list under its title."""
    first, second = pair["first"], pair["second"]
    titles = {
        "better": f"better under {first}",
        "worse": f"worse under {first}",
        "only_first": f"only in {first}",
        "only_second": f"only in {second}",
    }
    return ((title, pair[key]) for key, title in titles.items() if pair[key])


def _lines(arms: Sequence[ComparedArm], compared: "Sequence[JsonObject]") -> Iterator[str]:
    from paddock.collect.report import comparison_lines
    from paddock.viewer.blocks import visible

    for one in arms:
        passed = "  ".join(f"pass@{k} {value:.3f}" for k, value in _passed(one).items())
        relative = f", {one.n_relative} of relative rewards left out" if one.n_relative else ""
        without = f"{one.n_without_verdict} rollouts without a verdict"
        usd = _usd_each(one)
        each = f", {usd} each" if usd else ""
        yield f"{one.arm.name}: {len(one.arm.rows)} rows, {without}{relative}{each}, {passed}"
    for pair in compared:
        yield from comparison_lines([{"comparisons": [pair]}])[:-1]
        if pair["rows_needed_3_points"] is not None:
            yield f"  a difference of 0.03 needs {pair['rows_needed_3_points']} rows"
        for title, names in _changed(pair):
            more = f", and {len(names) - SHOWN_ROWS} more" if len(names) > SHOWN_ROWS else ""
            yield visible(f"  {title}: {', '.join(names[:SHOWN_ROWS])}{more}")
    budgets = _budgets(arms)
    if budgets:
        yield "solved within a budget, in the order of the runs"
    for row in budgets:
        shares = ", ".join(f"{share:.3f}" for share in row.shares)
        yield f"  {_amount(row.budget)} {row.kind}: {shares}"
