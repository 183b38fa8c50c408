"""`paddock harness`: the programs that harnesses run: installed, listed, tried, compared, removed.

Exit    0 done, and nothing is wrong; 1 some could not be installed, or are not as they should be, each said with what
        mends it; 2 a mistake in the command, or nothing here that could install it; 130 interrupted: no half is left.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli import harness_drift

if TYPE_CHECKING:
    from paddock.harness.programs.installation import InstalledProgram
    from paddock.harness.programs.program import Program
    from paddock.harness.programs.store import ProgramStore

SUBCOMMANDS = True

EXAMPLES = """examples:
  paddock harness list
  paddock harness install codex_cli opencode_cli
  paddock harness install codex_cli --version 0.63.0
  paddock harness doctor
  paddock harness drift codex_cli --version 0.63.0
  paddock harness remove codex_cli --version 0.63.0

exit codes:
  0    done, and nothing is wrong
  1    some could not be installed or are not as they should be; each is named with what mends it; `drift`:
       a version sends something else than is recorded
  2    a mistake in the command, or no npm or Python that could install it
  130  interrupted; no half program is left

NAME is a folder of harnesses, or package.module:Class. Only install uses the network, by npm and pip as you have set
them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    install = commands.add_parser("install", help="install programs, each in the version that its harness names")
    install.add_argument("names", nargs="+", metavar="NAME", help="a harness")
    install.add_argument("--version", metavar="V", help="another version than the pinned one")
    commands.add_parser("list", help="programs that harnesses run: pinned version, what is installed, licence")
    doctor = commands.add_parser("doctor", help="try what is installed")
    doctor.add_argument("names", nargs="*", metavar="NAME", help="these have to be installed; default: all that are")
    remove = commands.add_parser("remove", help="remove an installed program")
    remove.add_argument("name", metavar="NAME", help="program to remove")
    remove.add_argument("--version", metavar="V", help="another version than the pinned one")
    drift = commands.add_parser("drift", help="what a version sends otherwise than the recorded one")
    harness_drift.add_arguments(drift)
    for command in commands.choices.values():
        command.add_argument("--home", type=Path, metavar="DIR", help="where programs live (default: PADDOCK_HOME)")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError
    from paddock.harness.programs.store import ProgramStore

    commands: dict[str, Callable[[ProgramStore, argparse.Namespace], int]] = {
        "install": _install,
        "list": _list,
        "doctor": _doctor,
        "remove": _remove,
        "drift": _drift,
    }
    store = ProgramStore(args.home)
    try:
        return commands[args.command](store, args)
    except OSError as error:
        raise ConfigError(f"the store {store.root} can't be used: {error}", kind="store") from error


def _install(store: "ProgramStore", args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError, InfraError
    from paddock.harness.programs.catalogue import program_of

    if args.version and len(args.names) > 1:
        raise ConfigError("--version is for one harness: install them one by one", kind="arguments")
    failed = 0
    for program in [program_of(name, args.version) for name in args.names]:
        _print(f"{program.name} {program.version}: {program.package_text}; licence: {program.licence}")
        try:
            done = store.install(program, _print)
        except InfraError as error:
            failed += 1
            _complain(f"{program.name} {program.version}: {error}")
            continue
        _print(f"{program.name} {program.version}: {done.size_mib:.0f} MiB in {done.folder}")
    return 1 if failed else 0


def _remove(store: "ProgramStore", args: argparse.Namespace) -> int:
    from paddock.harness.programs.catalogue import program_of

    store.remove(program_of(args.name, args.version))
    return 0


def _drift(store: "ProgramStore", args: argparse.Namespace) -> int:
    from paddock.harness.programs.catalogue import program_of

    store.find(program_of(args.name, args.version))
    return harness_drift.run(args)


def _list(store: "ProgramStore", _: argparse.Namespace) -> int:
    from paddock.harness.programs.catalogue import load_catalogue

    catalogue = load_catalogue()
    by_name: dict[str, list[InstalledProgram]] = {name: [] for name in catalogue.programs}
    for installed in store.installed():
        by_name.setdefault(installed.name, []).append(installed)
    rows = [("harness", "pinned", "installed", "licence")]
    for name, those in by_name.items():
        program = catalogue.programs.get(name)
        versions = ", ".join(f"{installed.version} ({installed.size_mib:.0f} MiB)" for installed in those) or "-"
        rows.append((name, program.version if program else "-", versions, program.licence if program else "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for *cells, last in rows:
        _print("  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))
    return _unloadable(catalogue.broken)


def _doctor(store: "ProgramStore", args: argparse.Namespace) -> int:
    from paddock.harness.programs.catalogue import ProgramCatalogue, load_catalogue, program_of

    programs, broken = (
        ProgramCatalogue({name: program_of(name) for name in args.names}, {}) if args.names else load_catalogue()
    )
    bad = 0
    for name, pinned in programs.items():
        those = {installed.version: installed for installed in store.installed() if installed.name == pinned.name}
        if pinned.version not in those:
            bad += bool(args.names)
            _print(f"{pinned.name} {pinned.version}: not installed: {store.command('install', pinned)}")
        for version, installed in those.items():
            bad += not _fine(store, installed, program_of(name, version))
    return _unloadable(broken) or (1 if bad else 0)


def _fine(store: "ProgramStore", installed: "InstalledProgram", program: "Program") -> bool:
    from paddock.harness.programs.installation_check import problems

    wrong = problems(installed, program)
    label = f"{program.name} {program.version}"
    for problem in wrong:
        _print(f"{label}: {problem}")
    if wrong:
        _print(f"{label}: mend it with: {store.command('remove', program)} && {store.command('install', program)}")
    else:
        _print(f"{label}: fine")
    return not wrong


def _unloadable(broken: dict[str, str]) -> int:
    for name, why in broken.items():
        _complain(f"harness {name}: {why}")
    return 1 if broken else 0


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is the command's voice


def _complain(line: str) -> None:
    print(f"paddock harness: {line}", file=sys.stderr)  # noqa: T201 - this is the command's voice
