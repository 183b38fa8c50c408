"""`paddock doctor`: which sandbox runtimes work here, by trying them, and what to do about the others.

Exit    0 one works at least; 1 none does; 2 a mistake in the command, or a home that can't be written.
"""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.sandbox.doctor import MachineFact, ProbeCheck, Trial

COLUMNS = ("start", "files", "isolation", "network", "memory", "kill")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = __doc__.partition("\n\n")[2] if __doc__ else None
    parser.add_argument("--home", type=Path, metavar="DIR", help="where sandboxes live (default: PADDOCK_HOME)")
    parser.add_argument("--json", action="store_true", help="the whole report, for programs")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError
    from paddock.linux import INSTEAD, require_linux
    from paddock.sandbox.doctor import examine
    from paddock.sandbox.settings import SandboxSettings, check_home

    settings = SandboxSettings(home=args.home) if args.home else SandboxSettings()
    require_linux("sandboxes are made by", INSTEAD)
    check_home(settings.home)
    try:
        report = asyncio.run(examine(settings))
    except OSError as error:
        raise ConfigError(f"the home of sandboxes can't be used: {error}") from error
    if args.json:
        print(report.model_dump_json(indent=1))  # noqa: T201 - this is the command's voice
    else:
        _show(report.trials, report.facts)
    return 0 if report.works else 1


def _show(trials: "list[Trial]", facts: "list[MachineFact]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("runtime", "works", *COLUMNS, box=None, pad_edge=False)
    for trial in trials:
        by_name = {check.name: check for check in trial.checks}
        marks = [_mark(by_name.get(name)) for name in COLUMNS]
        table.add_row(trial.runtime, "yes" if trial.works else "no", *marks)
    console.print(table)
    for trial in trials:
        if not trial.works:
            console.print(f"\n{trial.runtime}: {trial.why_not}", markup=False, soft_wrap=True)
    machine = Table("machine", "", box=None, pad_edge=False, show_header=False)
    for fact in facts:
        machine.add_row(fact.name, fact.value + (f"\n-> {fact.advice}" if fact.advice else ""))
    console.print()
    console.print(machine)


def _mark(check: "ProbeCheck | None") -> str:
    if check is None:
        return "-"
    return f"{check.duration_s * 1000:.0f} ms" if check.wrong is None else "WRONG"
