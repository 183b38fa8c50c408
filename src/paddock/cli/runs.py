"""`paddock runs`: checks what a run's folder holds, line by line, and repairs it.

    paddock runs check FOLDER     every line against its digest and its run, the index against the rollouts
    paddock runs repair FOLDER    mends what can be mended, and sets the rest aside in damaged.jsonl

Exit    0 nothing is wrong, or all is mended; 1 something is wrong, or is left as it is; 2 a mistake in the command, or
        a folder that another paddock has to read.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.collect.repair import Finding

SUBCOMMANDS = True
MAX_SHOWN = 50
"""Findings that are printed one by one."""
CHECK = """Reads every line of rollouts.jsonl, failures.jsonl and index.jsonl, and changes nothing: is each as it was
written (by its digest), is it of this run, is there one line per rollout, does the index say what the rollouts say?

exit codes:
  0  nothing is wrong
  1  something is wrong: each line is named
  2  a mistake, or a run of a later format"""
REPAIR = """Lines that can't be believed go to damaged.jsonl, byte for byte: `paddock eval ... --resume` then runs their
rollouts again. Empty lines and exact doubles are dropped; of two lines of one rollout the first counts. Index, results
and summary are made again from the rollouts. Lines of an older format are given their digests.

exit codes:
  0  the folder can be gone on with
  1  lines are left that are whole, but of a form unknown here
  2  a mistake, a run of a later format, or a collector is at work in the folder"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_text, epilog in (
        ("check", "say what is wrong in a run's folder; changes nothing", CHECK),
        ("repair", "mend a run's folder, and set aside what can't be mended", REPAIR),
    ):
        command = commands.add_parser(
            name, help=help_text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument("folder", type=Path, metavar="FOLDER", help="folder of a run")


def run(args: argparse.Namespace) -> int:
    return _check(args.folder) if args.command == "check" else _repair(args.folder)


def _check(folder: Path) -> int:
    from paddock.collect.repair import check_folder

    report = check_folder(folder)
    _say_all(report.findings)
    for name, size in report.torn.items():
        _say(f"{name}: a torn last line of {size} bytes: its rollout had not ended, and runs again with --resume")
    wrong = f"{len(report.findings)} lines are wrong" if report.findings else "nothing is wrong"
    _say(
        f"{folder}: format {report.format}, {report.n_verdicts} of {report.n_rollouts} rollouts have a verdict; {wrong}"
    )
    return 1 if report.findings else 0


def _repair(folder: Path) -> int:
    from paddock.collect.folder import DAMAGED
    from paddock.collect.repair import repair_folder

    done = repair_folder(folder)
    _say_all(done.set_aside)
    counts = (
        (len(done.set_aside), f"lines set aside in {folder / DAMAGED}"),
        (done.n_dropped, "empty or doubled lines dropped"),
        (done.n_sealed, "lines of an older format given their digests"),
    )
    repairs = [f"{count} {what}" for count, what in counts if count]
    _say(f"{folder}: {'; '.join(repairs) or 'nothing was wrong'}")
    if done.left:
        _say_all(done.left)
        _say(f"{len(done.left)} lines are left as they are; index, results and summary were not made again")
        return 1
    _say(f"{done.n_verdicts} of {done.n_rollouts} rollouts have a verdict")
    return 0


def _say_all(findings: "Iterable[Finding]") -> None:
    listed = list(findings)
    for finding in listed[:MAX_SHOWN]:
        _say(str(finding))
    if len(listed) > MAX_SHOWN:
        _say(f"and {len(listed) - MAX_SHOWN} more")


def _say(line: str) -> None:
    print(line)  # noqa: T201 - the command's voice
