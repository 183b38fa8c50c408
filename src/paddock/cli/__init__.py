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
    parser = argparse.ArgumentParser(prog="paddock", description="Environments for RL on software engineering.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        # Only the asked command's module is imported: `--help` and start-up stay quick.
        if arguments[:1] == [name]:
            importlib.import_module(f"paddock.cli.{name}").add_arguments(sub)
    args = parser.parse_args(arguments)
    try:
        return int(importlib.import_module(f"paddock.cli.{args.command}").run(args))
    except ConfigError as error:
        print(f"paddock {args.command}: {error}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        return 2
