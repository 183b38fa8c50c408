"""The `paddock` command: one sub-command per module of this package, imported when it is asked for.

Exit    0 done; 2 a mistake in the command, the config or the rows, said in one message before anything starts;
        130 interrupted; other codes are stated in a sub-command's own help.
Signals a command that says `ENDS_IN_ORDER` hears them itself once it has something to end; until then, and for the
        others as Python does, they end it. None is heard once the exit code is known.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from paddock import __version__, limits, signals

COMMANDS = {
    "init": "write a working start of an environment, a harness or a run",
    "serve": "run servers of a config until interrupted",
    "eval": "run rollouts over rows and summarise them",
    "sft": "fine-tune a policy on chosen rollouts of finished runs, as a warm start",
    "train": "train a policy on the environments of a config",
    "launch": "begin a training run, or go on with it, here or on SLURM",
    "view": "look at runs in a browser, live while they are written",
    "show": "show a run's rollouts: a list, one turn by turn, or two side by side",
    "compare": "compare runs row by row, with an interval, a test and the rows that are needed",
    "runs": "check what a run's folder holds, line by line, and repair it",
    "verify": "score stored rollouts again, without a model",
    "samples": "turn stored rollouts into token sequences for a trainer",
    "fidelity": "try how exact the tokens of harnesses are, per dialect and chat template",
    "check": "run a plugin's conformance suite",
    "judge": "hold a judge against known preferences",
    "images": "build, convert, pull and list the images of sandboxes",
    "harness": "install, list and try the programs that harnesses run",
    "data": "fetch, fill, split, check and convert rows for training",
    "swe": "make and check rows of repositories with bugs, grade predictions",
    "pivot": "find rows for the pivot server in experts' trajectories",
    "doctor": "try the sandbox runtimes of this machine",
    "sandbox": "list sandboxes, remove what dead owners left, serve them to other machines",
    "completion": "print a script that completes commands and options in a shell",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code. `argv`: of a caller in this process; None: this is the program, and its signals are ours."""
    if argv is not None:
        return _main(list(argv), ours=False)
    signals.leave_at_once()
    signals.outlive_terminal()
    limits.raise_open_files()
    try:
        if (lacks := limits.lack_of_memory()) is not None:
            print(f"paddock: {lacks}", file=sys.stderr)  # noqa: T201 - this is the command's voice
            return 2
        return _main(sys.argv[1:], ours=True)
    except MemoryError:
        print("paddock: out of memory: raise `ulimit -v`, or lower --concurrency", file=sys.stderr)  # noqa: T201 - as above
        return 1
    finally:
        signals.ignore()


def _main(arguments: list[str], *, ours: bool) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        if arguments and not arguments[0].startswith("-"):
            print(_unknown(arguments[0]), file=sys.stderr)  # noqa: T201 - this is the command's voice
            return 2
        _top_parser().parse_args(arguments)
        return 2
    # Later than `leave_at_once`: an interrupt of slow imports is no trace.
    from paddock.errors import ConfigError

    name = arguments[0]
    # `my_pkg.mod:Class` beside the caller's own files; last, so that it hides nothing installed.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    module = importlib.import_module(f"paddock.cli.{name}")
    parser = command_parser(name)
    # Files and overrides may stand before, between and after the options; argparse can't do that with sub-commands.
    nested = getattr(module, "SUBCOMMANDS", False)
    args = parser.parse_args(arguments[1:]) if nested else parser.parse_intermixed_args(arguments[1:])
    if ours and not getattr(module, "ENDS_IN_ORDER", False):
        signals.interrupt()
    try:
        return int(module.run(args))
    except ConfigError as error:
        print(f"paddock {name}: {error}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        return 2
    except KeyboardInterrupt:
        return signals.INTERRUPTED


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command. Only its module is imported: `--help` and start-up stay quick."""
    summary = COMMANDS[name]
    parser = argparse.ArgumentParser(prog=f"paddock {name}", description=summary[0].upper() + summary[1:] + ".")
    importlib.import_module(f"paddock.cli.{name}").add_arguments(parser)
    return parser


def _unknown(word: str) -> str:
    from paddock.config.problems import nearest

    close = nearest(word, COMMANDS)
    hint = f"did you mean `{close}`? All commands" if close else "commands"
    return f"paddock: no command `{word}`; {hint}: {', '.join(COMMANDS)}"


def _top_parser() -> argparse.ArgumentParser:
    """Says what there is, and what was wrong."""
    parser = argparse.ArgumentParser(prog="paddock", description="Environments for RL on software engineering.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser
