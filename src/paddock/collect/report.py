"""Text about a collection for its user: the plan before it, the tables after it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.collect.folder import FAILURES, RESULTS, ROLLOUTS, SUMMARY
from paddock.collect.plan import MAX_SHOWN, Plan, row_problems
from paddock.collect.prices import usd_text
from paddock.collect.recovery import recover
from paddock.collect.results import FailedAttempt
from paddock.collect.run import CollectionResult
from paddock.collect.workers import served_config
from paddock.types import JsonObject, Usage
from paddock.types.display import usage_text

if TYPE_CHECKING:
    from rich.table import Table


MAX_REASONS = 5
"""Reasons for missing verdicts that the summary lists."""
MAX_WORDS = 20
"""Words of one label that the summary lists: those with the most rollouts."""


class PlanText(NamedTuple):
    """A plan for its reader."""

    text: list[str]
    n_wrong: int
    """Rows that can't run."""


def plan_lines(plan: Plan, folder: Path) -> PlanText:
    """The plan, every row checked against its environment; starts nothing."""
    wrong = [error.message for error in row_problems(plan)]
    where = f" in {plan.max_workers} workers" if plan.max_workers > 1 else ""
    if plan.settings.cluster is not None:
        where = f" in at most {plan.max_workers} workers on the cluster"
    at_once = f"{plan.settings.concurrency} at once{where}"
    text = [f"{plan.n_rows} rows, {plan.n_rollouts} rollouts, {at_once}, into {folder}"]
    text += [f"rows   {file.path}: {file.n_rows} rows, {file.repeats} per row" for file in plan.identity.rows]
    served, prices = served_config(plan), plan.settings.usd_per_million_tokens
    for name, instance in served.instances.items():
        text.append(f"server {name}: {instance.kind} {instance.implementation}")
    for name, who in plan.identity.agents.items():
        priced = not prices or who.model in prices or plan.identity.oracle
        lacks = "" if priced else " (without a price)"
        text.append(f"agent  {name}: environment {who.environment}, harness {who.harness}, model {who.model}{lacks}")
    if plan.identity.oracle:
        text.append("oracle each row's known-good turns are played; no model is called")
    right = "every row can be run by its agent and read by its environment"
    text.append(f"{len(wrong)} rows are wrong" if wrong else right)
    text += [f"  - {message}" for message in wrong[:MAX_SHOWN]]
    if len(wrong) > MAX_SHOWN:
        text.append(f"  and {len(wrong) - MAX_SHOWN} more")
    return PlanText(text, len(wrong))


def print_summary(collected: CollectionResult, folder: Path) -> None:
    """Print the tables of a collection, why verdicts are missing, and where the files are."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    for run in collected.summary:
        console.print(_table(run))
        for table in part_tables(run):
            console.print(_grid(table))
    for line in comparison_lines(collected.summary):
        console.print(line)
    missing = collected.n_rollouts - collected.n_verdicts
    if missing:
        failed = f"the servers failed for good ({collected.why}); "
        reasons_by_end = {
            "deadline": "the deadline came; ",
            "servers_failed": failed,
            "one_cause": f"{collected.why}; ",
            "interrupted": "interrupted; ",
        }
        why = reasons_by_end.get(collected.how, "")
        reasons = reason_lines(recover(folder).failures.values())
        where = f": {folder / FAILURES}" if reasons else ""
        console.print(f"{why}{missing} of {collected.n_rollouts} rollouts have no verdict{where}")
        for line in reasons:
            console.print(line)
    console.print(f"{folder}: {ROLLOUTS}, {RESULTS}, {SUMMARY}")


def reason_lines(failures: Iterable[FailedAttempt]) -> list[str]:
    """Why rollouts have no verdict: the commonest reasons first, each with one message as an example."""
    counts: Counter[tuple[str, str]] = Counter()
    messages: dict[tuple[str, str], str] = {}
    for failed in failures:
        cause = failed.outcome, f"{failed.kind} in stage {failed.stage}" if failed.stage else failed.kind
        counts[cause] += 1
        messages.setdefault(cause, failed.message)
    lines = [
        f"  {count} {outcome} ({why}), such as: {_short(messages[outcome, why])}"
        for (outcome, why), count in counts.most_common(MAX_REASONS)
    ]
    return lines if len(counts) <= MAX_REASONS else [*lines, f"  and {len(counts) - MAX_REASONS} more reasons"]


def _short(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= 240 else text[:237] + "..."


def _table(run: JsonObject) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        box=SIMPLE, show_header=False, title=f"{run['agent'] or 'rows without an agent'}", title_justify="left"
    )
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in summary_rows(run):
        table.add_row(name, value)
    return table


def _grid(part: "PartTable") -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE, title=part.title, title_justify="left")
    for index, name in enumerate(part.header):
        table.add_column(name, no_wrap=True, justify="right" if index else "left")
    for row in part.rows:
        table.add_row(*row)
    return table


def summary_rows(run: JsonObject) -> list[tuple[str, str]]:
    """The rows (name, text) of the table of one agent's run."""
    seconds = run["seconds"]
    stages = [
        f"{stage.replace('_', ' ')} {duration(seconds[stage])}"
        for stage in ("total", "seed", "sandbox", "model", "tools", "verify_wait", "verify")
        if seconds.get(stage)
    ]
    who = f"{run['environment']}, harness {run['harness']}, model {run['model']}" if run["environment"] else "-"
    rows = [
        ("environment", who),
        ("reward", _rate(run["mean_reward"], run["reward_ci95"])),
        *(_judge_rows(run) if run.get("relative") else _pass_rows(run)),
        ("outcomes", "  ".join(f"{kind} {count}" for kind, count in run["outcomes"].items())),
        ("reasons", _shares(run["reasons"])),
        ("weak rows", _weak(run)),
        ("ended by", _shares(run["ended"])),
        ("malformed", _malformed(run)),
        ("rollouts", f"{run['n_rollouts']} of {run['n_rows']} rows"),
        ("turns each", f"{run['turns']:.1f}" if run["turns"] else ""),
        ("tokens", _tokens(run)),
        ("cost", _cost(run)),
        ("time each", "  ".join(stages) or "-"),
        ("pace", f"{run['rollouts_per_s']:.1f} rollouts/s, {seconds['wall']:.1f} s in all"),
    ]
    return [(name, text) for name, text in rows if text]


def _pass_rows(run: JsonObject) -> list[tuple[str, str]]:
    return [
        ("passed", _rate(run["pass_rate"], run["pass_rate_ci95"])),
        ("pass@k", "  ".join(f"@{k} {share:.3f}" for k, share in run["pass_at_k"].items()) or "-"),
    ]


def _judge_rows(run: JsonObject) -> list[tuple[str, str]]:
    """For rewards that only compare members of a group: the metrics of the judge."""
    return [("judge", "  ".join(f"{name} {value:.3g}" for name, value in run["metrics"].items()))]


class PartTable(NamedTuple):
    """A table of the parts of an agent's rollouts."""

    title: str
    header: Sequence[str]
    rows: list[tuple[str, ...]]


def part_tables(run: JsonObject) -> Iterator[PartTable]:
    """Tables of a run by its variants, then by each label with several values that don't each have one row."""
    header = ("rollouts", "rows", "passed", "95 %", "turns")
    parts = {"harness": run.get("variants", {}), **run.get("labels", {})}
    for label, words in parts.items():
        if len(words) < 2 or all(numbers["n_rows"] == 1 for numbers in words.values()):
            continue
        most = sorted(words.items(), key=lambda item: -item[1]["n_rollouts"])
        rows = [(word, *_part(numbers)) for word, numbers in most[:MAX_WORDS]]
        left = len(most) - len(rows)
        rows += [(f"and {left} more", "", "", "", "", "")] if left else []
        yield PartTable(f"by {label}", (label, *header), rows)


def comparison_lines(summary: Sequence[JsonObject]) -> list[str]:
    """Each pair of arms that worked on the same rows; empty: there was only one arm."""
    pairs = [pair for run in summary for pair in run.get("comparisons", [])]
    lines = [
        f"  {pair['first']} - {pair['second']}: {pair['difference']:+.3f} {_interval(pair['ci95'], '+.3f')}, "
        f"{pair['first_rate']:.3f} and {pair['second_rate']:.3f} on {pair['n_rows']} rows, "
        f"better on {pair['n_first_better']}, worse on {pair['n_second_better']}, {_test(pair)}"
        for pair in pairs
    ]
    return ["compared, row by row", *lines, ""] if lines else []


def _test(pair: JsonObject) -> str:
    """The p-value, and how many rows would show the difference that was seen."""
    # Summaries that another version wrote have only p.
    needed, n_repositories = pair.get("rows_needed"), pair.get("n_repositories", pair["n_rows"])
    of = f" over {n_repositories} repositories" if n_repositories < pair["n_rows"] else ""
    p = "too few repositories for a test" if pair["p_value"] is None else f"p {pair['p_value']:.2g}"
    return f"{p}{of}" + (f", {needed} rows needed" if needed is not None and needed > pair["n_rows"] else "")


def _part(numbers: JsonObject) -> tuple[str, ...]:
    rate, turns = numbers["pass_rate"], numbers["turns"]
    return (
        str(numbers["n_rollouts"]),
        str(numbers["n_rows"]),
        "-" if rate is None else f"{rate:.3f}",
        _interval(numbers["pass_rate_ci95"]),
        "-" if turns is None else f"{turns:.1f}",
    )


def _rate(value: float | None, interval: Sequence[float] | None) -> str:
    return "-" if value is None else f"{value:.3f}  {_interval(interval)}".rstrip()


def _interval(interval: Sequence[float] | None, form: str = ".3f") -> str:
    return f"[{format(interval[0], form)}, {format(interval[1], form)}]" if interval else ""


def _shares(counts: JsonObject) -> str:
    total = sum(counts.values())
    return "  ".join(f"{word} {count} ({100 * count / total:.1f} %)" for word, count in counts.items())


def _weak(run: JsonObject) -> str:
    """How many verdicts are of rows whose verdicts say little; empty: none."""
    n, total = run.get("n_weak", 0), sum(run["reasons"].values())
    return f"{n} of {total} rollouts ({100 * n / total:.1f} %) are of rows that expect only words" if n else ""


def _malformed(run: JsonObject) -> str:
    """Malformed calls per rollout; empty where no agent reports them."""
    if not run["ended"]:
        return ""
    means = run["malformed_per_rollout"]
    return "  ".join(f"{kind} {mean:.2f}" for kind, mean in means.items()) + " calls each" if means else "none"


def _tokens(run: JsonObject) -> str:
    total, means = run["tokens"], run["tokens_per_rollout"]
    usage = Usage(**{f"{name}_tokens": count for name, count in total.items()})
    mean = f", {means['input']:.0f} and {means['output']:.0f} each" if means["input"] or means["output"] else ""
    return f"{usage_text(usage)}{mean}"


def _cost(run: JsonObject) -> str:
    """Empty: it is not known."""
    total = run.get("cost_usd")
    return "" if total is None else f"{usd_text(total)}, {usd_text(run['cost_usd_per_rollout'])} each"


def duration(seconds: float) -> str:
    """Seconds as text."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2f} ms"
