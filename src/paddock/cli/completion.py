"""`paddock completion`: a script that completes commands, options and their values in a shell.

Source  the parsers of all commands, as `shtab` writes them down: the script itself starts no Python. What takes a value
        that is none of a few words completes to files.
"""

import argparse

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """examples:
  paddock completion bash > ~/.local/share/bash-completion/completions/paddock
  paddock completion zsh > ~/.zfunc/_paddock       (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
  paddock completion fish > ~/.config/fish/completions/paddock.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads it")


def run(args: argparse.Namespace) -> int:
    import shtab

    print(shtab.complete(whole_parser(), args.shell))  # noqa: T201 - this is the command's voice
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands, which no command reads its words with: it imports the modules of all."""
    from importlib import import_module

    from paddock.cli import COMMANDS

    parser = argparse.ArgumentParser(prog="paddock")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        one = commands.add_parser(name, help=summary)
        import_module(f"paddock.cli.{name}").add_arguments(one)
        _complete_files(one)
    return parser


def _complete_files(parser: argparse.ArgumentParser) -> None:
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner)
        elif action.choices is None and action.nargs != 0:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
