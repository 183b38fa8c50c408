"""`paddock fidelity`: how exact the tokens of harnesses are, in each dialect and over each chat template.

Output  tables to stdout, all figures to `--json`. Programs that are not installed are named, and left out.
Exit    0 reported; 1 a combination was found worse than `--require`; 2 a mistake in the command; 3 each run was
        refused: nothing was measured.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paddock.lab.fidelity import Combination, FidelityReport, FidelitySubject, Language
    from paddock.lab.fidelity.tables import TableRow

HELP = """harnesses:
  codeact, harness:NAME    a native harness, run for real (default: codeact, codex, opencode)
  program:NAME             a real program in a sandbox, as `paddock harness install NAME` has put it here, in all its
                           dialects; --programs: each that is installed. Over `thinking` alone where no template is
                           named: each run takes seconds
  client:NAME              a model of how a program sends its history back, not the program: codex_cli, opencode_cli,
                           openhands, claude_code, mini_swe_agent, pi, qwen_code

verdicts, each proven id by id in the engine's own log:
  exact    one sample holds all that was sampled
  split    several samples do, each exact
  differs  a prompt was not what the template itself writes of the same conversation; the last lines say how
  masked   some of what was sampled can't be trained on
  failed   a run did not get to its end
  refused  a run did not, because the server or the template refused a request: nothing was found inexact

columns:
  append-only    answers whose prompt starts with all ids of the answer before
  forks          branches of the record beyond the first
  dropped        sampled tokens that no sample of mode `branch` trains on; then: that of mode `whole` doesn't
  in samples     how many samples a token is in
  tokenised      characters that the server tokenised, by those of the final conversation
A client that asks for a title, or sums its history up, starts branches itself: such runs count in the verdict alone.

examples:
  paddock fidelity
  paddock fidelity codex --template thinking
  paddock fidelity codex client:codex_cli --template mine.jinja --json fidelity.json
  paddock fidelity --programs --json programs.json
  paddock fidelity program:codex_cli client:codex_cli --scenario malformed
  paddock fidelity --model /models/mine --require exact
  paddock fidelity --naive          (prompts made of what clients send back: what this is to be compared with)"""
PLAIN_WIDTH = 200
"""Columns where there is no terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = HELP
    parser.add_argument("subject", nargs="*", metavar="HARNESS", help="what to try (default: all but programs)")
    parser.add_argument(
        "--template",
        action="append",
        metavar="NAME|FILE",
        help="chat template, may be repeated (default: `thinking`, and made ones that do one thing each to the past)",
    )
    parser.add_argument(
        "--model", metavar="DIR", help="folder of a model: its tokenizer, and its template if none is named"
    )
    parser.add_argument(
        "--scenario", action="append", metavar="NAME", help="what happens, may be repeated (default: all)"
    )
    parser.add_argument("--programs", action="store_true", help="try each real program that is installed")
    parser.add_argument("--naive", action="store_true", help="try a server that tokenises the whole history each time")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--require", choices=["exact", "split"], help="exit with 1 where a combination was found worse")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from paddock.errors import ConfigError
    from paddock.lab.fidelity import BenchServer, NaiveServer, find_scenarios, report

    scenarios = find_scenarios(args.scenario or ())
    subjects, missing = _subjects(args)
    server_type = NaiveServer if args.naive else BenchServer
    languages = _languages(args, subjects)
    with Console(stderr=True).status("") as status:  # seen on a terminal alone

        def show_progress(done: "Combination") -> None:
            status.update(f"{done.subject} {done.dialect} over {done.template}: {done.verdict}")

        fidelity = asyncio.run(
            report(
                subjects,
                languages,
                scenarios,
                server_type=server_type,
                missing=missing,
                on_combination=show_progress,
            )
        )
    if args.json:
        import orjson

        from paddock.lab.fidelity.tables import as_json

        try:
            Path(args.json).write_bytes(orjson.dumps(as_json(fidelity), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise ConfigError(f"{args.json}: can't be written: {error.strerror}", kind="out_unwritable") from error
    _show(fidelity)
    if fidelity.refused:
        _say("nothing was measured: each run was refused")
        return 3
    worse = fidelity.worse_than(args.require) if args.require is not None else []
    if worse:
        _say(f"{len(worse)} combinations are worse than {args.require}")
    return 1 if worse else 0


def _subjects(args: argparse.Namespace) -> "tuple[list[FidelitySubject], dict[str, str]]":
    """What can be tried; what can't, and why."""
    from paddock.errors import ConfigError
    from paddock.lab.fidelity import available_subjects, find_subjects, program_subjects

    named = find_subjects(args.subject) if args.subject or not args.programs else []
    subjects, missing = available_subjects([*named, *(program_subjects() if args.programs else [])])
    if not subjects:
        raise ConfigError("nothing to try: " + "; ".join(missing.values()), kind="subject_missing")
    return subjects, missing


def _languages(args: argparse.Namespace, subjects: "Sequence[FidelitySubject]") -> "list[Language]":
    from paddock.lab.fidelity import OURS, ProgramSubject, language, language_names

    model = Path(args.model) if args.model else None
    slow = any(isinstance(subject, ProgramSubject) for subject in subjects)
    names = args.template or ([""] if model else [OURS] if slow else language_names())
    return [language(name, model=model) for name in names]


def _show(fidelity: "FidelityReport") -> None:
    from rich.console import Console

    from paddock.lab.fidelity.tables import HEADER, TRAITS_HEADER, lines, rows, trait_rows

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(_table(HEADER, rows(fidelity), right=range(4, 10)))
    console.print(_table(TRAITS_HEADER, trait_rows(fidelity)))
    for line in lines(fidelity):
        console.print(line)


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - this is the command's voice


def _table(header: "Sequence[str]", rows: "Iterable[TableRow]", right: "Sequence[int]" = ()) -> object:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for index, name in enumerate(header):
        table.add_column(name, overflow="fold", justify="right" if index in right else "left")
    for row in rows:
        table.add_row(*row.cells)
    return table
