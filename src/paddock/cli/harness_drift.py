"""`paddock harness drift`: what a version of a program sends otherwise than the one that is written down.

Output  the differences to stdout, each once, with the scenarios and requests that have it.
Exit    0 none, or recorded; 1 there are some; 2 a mistake in the command, the program is not installed, or sandboxes do
        not work here.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.lab.wirelab import WireRecord, WireSubject
    from paddock.sandbox import SandboxSettings
    from paddock.types import JsonObject

HERE = "golden"

HELP = """examples:
  paddock harness drift codex_cli
  paddock harness install codex_cli --version 0.63.0 && paddock harness drift codex_cli --version 0.63.0
  paddock harness drift codex_cli --config output_limit_tokens=1000 --scenario huge_output
  paddock harness drift opencode_cli --dialect messages --record

exit codes: 0 no difference, or recorded; 1 differences; 2 a mistake, no such program here, or no sandbox"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = HELP
    parser.add_argument("name", metavar="NAME", help="a harness that runs a program")
    parser.add_argument("--version", metavar="V", help="that is installed, and played; default: the pinned one")
    parser.add_argument("--against", metavar="V|FILE", help="a recorded version, or a record (default: the pinned one)")
    parser.add_argument("--dialect", metavar="D", help="responses, chat or messages; default: the program's first")
    parser.add_argument(
        "--config", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="settings of the harness"
    )
    parser.add_argument("--scenario", action="append", default=[], metavar="S", help="may be repeated; default: all")
    parser.add_argument(
        "--record",
        nargs="?",
        const=HERE,
        metavar="FILE",
        help="write down what is sent, in place of comparing; without FILE: beside the harness",
    )


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError
    from paddock.lab.wirelab import find_subject, record, report, write_record

    subject = find_subject(args.name, version=args.version, dialect=args.dialect, block=_block(args.config))
    if args.record == HERE and (args.scenario or args.config):
        raise ConfigError(
            "--record beside the harness takes all scenarios and no settings: name a FILE", kind="arguments"
        )
    before = None if args.record else _before(subject, args.against, args.scenario)
    settings = _settings(args.home)
    after = asyncio.run(record(subject, args.scenario, settings=settings, on_scenario=_say))
    if before is None:
        file = _golden(subject, after.version) if args.record == HERE else Path(args.record)
        write_record(after, file)
        _say(f"written: {file}")
        return 0
    differences = report(before, after)
    print(differences, end="")  # noqa: T201 - this is the command's voice
    return 1 if differences else 0


def _block(words: list[str]) -> "JsonObject":
    import yaml

    from paddock.errors import ConfigError

    block = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not (key and equals):
            raise ConfigError(f"--config {word}: needs KEY=VALUE", kind="arguments")
        block[key] = yaml.safe_load(value)
    return block


def _before(subject: "WireSubject", against: str | None, names: list[str]) -> "WireRecord":
    from paddock.lab.wirelab import find_subject, read_record

    if against and Path(against).is_file():
        golden = read_record(Path(against))
    else:
        golden = read_record(_golden(subject, against or find_subject(subject.spec).program.version))
    runs = {name: run for name, run in golden.runs.items() if not names or name in names}
    return golden.model_copy(update={"runs": runs})


def _golden(subject: "WireSubject", version: str) -> Path:
    from paddock.lab.wirelab import record_file

    return record_file(subject.folder, version, subject.dialect)


def _settings(home: Path | None) -> "SandboxSettings":
    from paddock.sandbox import SandboxSettings
    from paddock.sandbox.doctor import probe_settings

    return probe_settings(SandboxSettings(home=home) if home else SandboxSettings())


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - this is the command's voice
