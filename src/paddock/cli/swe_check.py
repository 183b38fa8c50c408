"""`paddock swe check`: what it says while it goes, and what it leaves behind.

Output  per row a line on stdout as it ends, its findings below it; a last line counts. What is being done stands on
        stderr, on a terminal only.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from paddock.cli import workers
from paddock.cli.local_repositories import local_repositories
from paddock.cli.publishers import publishers
from paddock.errors import ConfigError, PaddockError
from paddock.resources_servers.swe.checks import (
    CheckFinding,
    CheckOptions,
    Reports,
    RowCheckResult,
    RowReport,
    Watcher,
    check_rows,
    read_lines,
    write_rows,
)
from paddock.sandbox import SandboxSettings

SIGNS = {"accepted": "accepted", "refused": "REFUSED", "failed": "FAILED"}


def check(args: argparse.Namespace) -> int:
    options = _options(args)
    report = _report_path(args)
    lines = read_lines(args.rows)
    reports = Reports(report, RowReport, again=args.recheck)
    console = Console(stderr=True)
    with Status("starting", console=console) as status:
        if not console.is_terminal:
            status.stop()
        try:
            checked = asyncio.run(check_rows(lines, options, reports, _watcher(status, len(lines))))
        except ConfigError:
            raise
        except PaddockError as error:
            print(f"paddock swe: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
            return 1
    rows = [checked_row.row for checked_row in checked if checked_row.row is not None]
    if args.out is not None:
        write_rows(args.out, rows)
    where = f"; rows in {args.out}" if args.out is not None else ""
    _print(f"{len(rows)} of {len(checked)} accepted{where}; report in {report}")
    return 0 if len(rows) == len(checked) else 1


def report_lines(report: RowReport, *, from_report: bool) -> Iterator[str]:
    """A row's report for people."""
    parts = [f"{SIGNS[report.ended]:<8}  {report.instance_id} (line {report.line})"]
    if report.gold_s:
        parts.append(f"{len(report.fail_to_pass)} tests must change, {len(report.pass_to_pass)} must stay")
        parts.append(f"runs {_seconds(report.null_s)} without, {_seconds(report.gold_s)} with the fix")
    if from_report:
        parts.append("known from the report")
    yield "; ".join(parts)
    for finding in sorted(report.findings, key=lambda entry: not entry.is_refusal):
        yield from _finding(finding)
    for flake in report.flakes:
        yield f"    flake: {flake.test} ({flake.side}): {', '.join(flake.statuses)}"


def _finding(finding: CheckFinding) -> Iterator[str]:
    first, *more = finding.detail.split("\n")
    yield f"    {'refused' if finding.is_refusal else 'note'}: {first}"
    yield from (f"        {line}" for line in more)
    if finding.advice:
        yield f"        -> {finding.advice}"


def _seconds(durations: list[float]) -> str:
    low, high = min(durations), max(durations)
    return f"{low:.1f} s" if high - low < 0.1 else f"{low:.1f}-{high:.1f} s"


def _watcher(status: Status, total: int) -> Watcher:
    ended = 0

    def doing(what: str) -> None:
        status.update(escape(f"{ended} of {total} rows; {what}"))

    def done(checked: RowCheckResult) -> None:
        nonlocal ended
        ended += 1
        for line in report_lines(checked.report, from_report=checked.reused):
            _print(line)

    return Watcher(doing, done)


def _options(args: argparse.Namespace) -> CheckOptions:
    if args.runs < 1:
        raise ConfigError("--runs needs 1 or more", kind="flag_invalid")
    if not args.timeout_s > 0:
        raise ConfigError("--timeout-s needs more than 0", kind="flag_invalid")
    sandbox = SandboxSettings(home=args.home.absolute()) if args.home else SandboxSettings()
    return CheckOptions(
        runs=args.runs,
        jobs=workers.items_at_once(args, "jobs"),
        tests_timeout_s=args.timeout_s,
        sandbox=sandbox,
        local_repositories=local_repositories(args),
        publishers=publishers(args),
        spread=workers.worker_spread(args),
    )


def _report_path(args: argparse.Namespace) -> Path:
    beside: Path = args.out or args.rows
    report: Path = args.report or beside.with_suffix(".report.jsonl")
    named = [("ROWS", args.rows), ("--out", args.out), ("--report", report)]
    given = [(flag, path.absolute()) for flag, path in named if path is not None]
    for index, (flag, path) in enumerate(given):
        if any(path == other for _, other in given[:index]):
            raise ConfigError(f"{flag} {path}: the same file as another", kind="flag_invalid")
        if flag != "ROWS" and not path.parent.is_dir():
            raise ConfigError(f"{flag}: no folder {path.parent}", kind="flag_invalid")
    return report


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's voice
