"""What a person reads of a collection: the plan before it, the table after it."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.collect.endings import FailedAttempt
from paddock.collect.folder import FAILURES, RESULTS, ROLLOUTS, SUMMARY
from paddock.collect.oracle import oracle_config
from paddock.collect.plan import MAX_SHOWN, Plan, row_problems
from paddock.collect.recovery import recover
from paddock.collect.run import Collected
from paddock.types import JsonObject

if TYPE_CHECKING:
    from rich.table import Table


MAX_REASONS = 5
"""Reasons for missing verdicts that the summary lists."""


class PlanText(NamedTuple):
    text: list[str]
    n_wrong: int
    """Rows that can't run."""


def plan_lines(plan: Plan, folder: Path) -> PlanText:
    """The plan, every row checked against its environment; starts nothing."""
    wrong = [error.message for error in row_problems(plan)]
    text = [f"{plan.n_rows} rows, {plan.n_rollouts} rollouts, {plan.settings.concurrency} at once, into {folder}"]
    text += [f"rows   {file.path}: {file.n_rows} rows, {file.repeats} per row" for file in plan.identity.rows]
    served = oracle_config(plan) if plan.identity.oracle else plan.config
    for name, instance in served.instances.items():
        text.append(f"server {name}: {instance.kind} {instance.implementation}")
    for name, who in plan.identity.agents.items():
        text.append(f"agent  {name}: environment {who.environment}, harness {who.harness}, model {who.model}")
    if plan.identity.oracle:
        text.append("oracle each row's known-good turns are played; no model is asked")
    text.append(f"{len(wrong)} rows are wrong" if wrong else "every row can be read by its environment")
    text += [f"  - {message}" for message in wrong[:MAX_SHOWN]]
    if len(wrong) > MAX_SHOWN:
        text.append(f"  and {len(wrong) - MAX_SHOWN} more")
    return PlanText(text, len(wrong))


def print_summary(collected: Collected, folder: Path) -> None:
    """The table, then where the files are."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    for run in collected.summary:
        console.print(_table(run))
    missing = collected.n_rollouts - collected.n_verdicts
    if missing:
        failed = f"the servers failed for good ({collected.why}); "
        why = {"deadline": "the deadline came; ", "servers_failed": failed}.get(collected.how, "")
        console.print(f"{why}{missing} of {collected.n_rollouts} rollouts have no verdict: {folder / FAILURES}")
        for line in reason_lines(recover(folder).failures.values()):
            console.print(line)
    console.print(f"{folder}: {ROLLOUTS}, {RESULTS}, {SUMMARY}")


def reason_lines(failures: Iterable[FailedAttempt]) -> list[str]:
    """Why rollouts have no verdict: the commonest reasons first, each with the message of one of them."""
    counts: Counter[tuple[str, str]] = Counter()
    messages: dict[tuple[str, str], str] = {}
    for failed in failures:
        counts[failed.outcome, failed.kind] += 1
        messages.setdefault((failed.outcome, failed.kind), failed.message)
    lines = [
        f"  {count} {outcome} ({kind}), such as: {_short(messages[outcome, kind])}"
        for (outcome, kind), count in counts.most_common(MAX_REASONS)
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


def summary_rows(run: JsonObject) -> list[tuple[str, str]]:
    """A run of a summary as (name, text)."""
    interval = run["reward_ci95"]
    spread = f"  [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
    seconds = run["seconds"]
    stages = [
        f"{stage} {_duration(seconds[stage])}"
        for stage in ("total", "seed", "sandbox", "model", "tools", "verify")
        if seconds[stage]
    ]
    who = f"{run['environment']}, harness {run['harness']}, model {run['model']}" if run["environment"] else "-"
    return [
        ("environment", who),
        ("reward", (f"{run['mean_reward']:.3f}" if run["mean_reward"] is not None else "-") + spread),
        ("pass@k", "  ".join(f"@{k} {share:.3f}" for k, share in run["pass_at_k"].items()) or "-"),
        ("outcomes", "  ".join(f"{kind} {count}" for kind, count in run["outcomes"].items())),
        ("rollouts", f"{run['n_rollouts']} of {run['n_rows']} rows"),
        ("tokens", f"{run['tokens']['input']} in, {run['tokens']['output']} out"),
        ("time each", "  ".join(stages) or "-"),
        ("pace", f"{run['rollouts_per_s']:.1f} rollouts/s, {seconds['wall']:.1f} s in all"),
    ]


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.2f} ms"
