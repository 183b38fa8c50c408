"""`paddock swe grade`: predictions in SWE-bench's form, graded here, and its report.

Output  per prediction a line on stdout as it ends, then the counts; why one has no verdict stands on its line. In the
        folder: `gradings.jsonl`, a line per prediction with its tests, and per model the report of SWE-bench's harness.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from paddock.cli.local_repositories import local_repositories
from paddock.cli.publishers import publishers
from paddock.collect.new_file import new_file
from paddock.errors import ConfigError, PaddockError
from paddock.resources_servers.swe.checks import Reports, RowLine, read_lines
from paddock.resources_servers.swe.images import SweImages
from paddock.resources_servers.swe.predictions import (
    GradedPrediction,
    GradeOptions,
    Prediction,
    grade_predictions,
    make_report,
    read_predictions,
    report_name,
    rows_by_id,
)
from paddock.sandbox import SandboxSettings

RECORD = "gradings.jsonl"
WORDS = {
    "resolved": "resolved",
    "unresolved": "unresolved",
    "empty_patch": "empty patches",
    "error": "errors",
    "infra_failure": "of these without a verdict",
}
MAX_SHOWN = 5
"""Predictions without a row that are named."""


def grade(args: argparse.Namespace) -> int:
    options = _options(args)
    predictions, lines = read_predictions(args.predictions), read_lines(args.rows)
    rows = rows_by_id(lines)
    chosen = _with_rows(predictions, rows, args)
    out: Path = args.out or Path("runs") / args.predictions.stem
    _make(out)
    records = Reports(out / RECORD, GradedPrediction)
    console = Console(stderr=True)
    with Status("starting", console=console) as status:
        if not console.is_terminal:
            status.stop()
        try:
            done = _progress(status, len(chosen))
            graded = asyncio.run(grade_predictions(chosen, lines, options, records, done))
        except ConfigError:
            raise
        except PaddockError as error:
            print(f"paddock swe: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
            return 1
    for model in dict.fromkeys(prediction.model for prediction in predictions):
        of_model = [prediction for prediction in predictions if prediction.model == model]
        report = make_report(rows, of_model, [prediction for prediction in graded if prediction.model == model])
        path = out / report_name(model, out.resolve().name)
        with new_file(path) as file:
            file.write(json.dumps(report, indent=4).encode() + b"\n")
        counts = {word: report[f"{name}_instances"] for name, word in WORDS.items()}
        shares = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        _print(f"{model}: {shares} of {report['submitted_instances']} predictions; report in {path}")
    return 0 if all(prediction.has_verdict for prediction in graded) else 3


def _with_rows(predictions: list[Prediction], rows: dict[str, RowLine], args: argparse.Namespace) -> list[Prediction]:
    """The predictions that a row is there for; others are named."""
    strangers = [prediction.instance_id for prediction in predictions if prediction.instance_id not in rows]
    if len(strangers) == len(predictions):
        raise ConfigError(
            f"{args.predictions}: no prediction is for a row of {args.rows}: the first is {strangers[0]}",
            kind="no_predictions",
        )
    if strangers:
        more = f" and {len(strangers) - MAX_SHOWN} more" if len(strangers) > MAX_SHOWN else ""
        named = f"{', '.join(strangers[:MAX_SHOWN])}{more}"
        print(f"paddock swe: not graded, no row is there for: {named}", file=sys.stderr)  # noqa: T201 - as above
    return [prediction for prediction in predictions if prediction.instance_id in rows]


def _progress(status: Status, total: int) -> Callable[[GradedPrediction], None]:
    ended = 0

    def done(graded: GradedPrediction) -> None:
        nonlocal ended
        ended += 1
        status.update(escape(f"{ended} of {total} predictions"))
        why = "" if graded.outcome in ("resolved", "empty_patch") else f" ({graded.reason})"
        detail = f": {' '.join(graded.detail.split())}" if graded.detail else ""
        other = (graded.verdict or {}).get("official")
        official = f"; officially {other['status']}" if isinstance(other, dict) else ""
        _print(f"{graded.outcome:<11}  {graded.instance_id}{why}{detail}{official}")

    return done


def _options(args: argparse.Namespace) -> GradeOptions:
    if args.jobs < 1:
        raise ConfigError("--jobs needs 1 or more", kind="flag_invalid")
    if not args.timeout_s > 0:
        raise ConfigError("--timeout-s needs more than 0", kind="flag_invalid")
    local = local_repositories(args)
    try:
        images = SweImages(container_formatter=args.formatter, registry=args.registry, local_repositories=local)
    except ValueError as error:
        raise ConfigError(f"--formatter: {error}", kind="flag_invalid") from None
    sandbox = SandboxSettings(home=args.home.absolute()) if args.home else SandboxSettings()
    return GradeOptions(
        jobs=args.jobs,
        tests_timeout_s=args.timeout_s,
        images=images,
        sandbox=sandbox,
        publishers=publishers(args),
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: {error.strerror}", kind="out_unwritable") from None


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's voice
