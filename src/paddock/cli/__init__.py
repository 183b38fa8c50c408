"""The `paddock` command: one sub-command per module of this package, imported when it is asked for.

Exit    0 done; 2 a mistake in the command, the config or the rows, said in one message before anything starts;
        130 interrupted; other codes are stated in a sub-command's own help.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from paddock import __version__
from paddock.errors import ConfigError

COMMANDS = {
    "serve": "run servers of a config until interrupted",
    "eval": "run rollouts over rows and summarise them",
    "verify": "score stored rollouts again, without a model",
    "check": "run a plugin's conformance suite",
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    if command is None:
        _overview().parse_args(arguments)
        raise AssertionError("the overview ends by itself: no word is both a command and unknown to it")
    # Only the asked command's module is imported: `--help` and start-up stay quick.
    module = importlib.import_module(f"paddock.cli.{command}")
    parser = argparse.ArgumentParser(prog=f"paddock {command}", description=_sentence(COMMANDS[command]))
    module.add_arguments(parser)
    # Intermixed: `key=value` may stand after options.
    args = parser.parse_intermixed_args(arguments[1:])
    try:
        return int(module.run(args))
    except ConfigError as error:
        print(f"paddock {command}: {error}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        return 2
    except KeyboardInterrupt:
        return 130


def _overview() -> argparse.ArgumentParser:
    """`paddock`, `paddock --help`, `paddock --version`, and what to say to an unknown command."""
    parser = argparse.ArgumentParser(prog="paddock", description="Environments for RL on software engineering.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


def _sentence(summary: str) -> str:
    return summary[0].upper() + summary[1:] + "."
