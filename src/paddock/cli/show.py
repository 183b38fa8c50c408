"""`paddock show`: the rollouts of a run, one of them turn by turn, or two side by side.

Exit    0 shown; 2 a mistake: no such run, no such row.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.viewer import Block, Entry, Part, TextLine

EXAMPLES = """examples:
  paddock show runs/mine                            every rollout, a line each
  paddock show runs/mine --failed                   those without a reward above 0
  paddock show runs/mine 3                          the rollout of row 3 (a list, where it has several)
  paddock show runs/mine 3-1                        member 1 of row 3
  paddock show runs/mine astropy__astropy-12907     by the name that the row gives itself
  paddock show runs/mine --diff 3-0 3-1             two side by side
  paddock show runs/mine --failed --html failed.html"""
PLAIN_WIDTH = 160
"""Columns where there is no terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("run", metavar="RUN_DIR|FILE", help="folder of a run, or a file of rollouts")
    parser.add_argument("row", nargs="?", metavar="ROW", help="row index, `index-member`, or the row's own name")
    parser.add_argument("--failed", action="store_true", help="only rollouts without a reward above 0")
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"), help="two rollouts side by side")
    parser.add_argument("--html", metavar="FILE", help="write one HTML file that needs nothing else")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError

    if args.diff and (args.row or args.failed):
        raise ConfigError("--diff names its two rollouts: it goes with no ROW and no --failed", kind="flag_invalid")
    try:
        return _page(args) if args.html else _terminal(args)
    except BrokenPipeError:
        # The reader has seen enough; without this the interpreter complains as it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _terminal(args: argparse.Namespace) -> int:
    from paddock.viewer import TERMINAL_LIMITS, TextLine, entry_blocks, list_lines, render, select_rollout, side_by_side

    run = Path(args.run)
    width = shutil.get_terminal_size((PLAIN_WIDTH, 50)).columns if sys.stdout.isatty() else PLAIN_WIDTH
    if args.diff:
        left, right = (select_rollout(run, wanted) for wanted in args.diff)
        _print(render(side_by_side(left, right, TERMINAL_LIMITS), width))
        return 0
    selected = _selected(args)
    if args.row and len(listed := list(selected)) == 1:
        _print(render(entry_blocks(listed[0], TERMINAL_LIMITS), width))
        return 0
    _print(TextLine(*line) for line in list_lines(listed if args.row else selected))
    return 0


def _selected(args: argparse.Namespace) -> "Iterator[Entry]":
    """The rollouts that the command names."""
    from paddock.viewer import read_entries, select_rollouts, without_reward

    run = Path(args.run)
    selected = iter(select_rollouts(run, args.row) if args.row else read_entries(run))
    return without_reward(selected) if args.failed else selected


def _page(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError
    from paddock.viewer import PAGE_LIMITS, page, select_rollout, side_by_side

    run = Path(args.run)
    parts: Iterable[Part]
    if args.diff:
        left, right = (select_rollout(run, wanted) for wanted in args.diff)
        parts = [lambda: side_by_side(left, right, PAGE_LIMITS)]
    else:
        parts = (partial(_rollout_fold, entry, opened=args.row is not None) for entry in _selected(args))
    pieces = page(args.run, parts)
    # Not before the first rollout was found: a mistake leaves no file, and spoils none.
    first = next(pieces), next(pieces)
    try:
        with Path(args.html).open("wb") as file:
            file.writelines(chain(first, pieces))
    except OSError as error:
        raise ConfigError(
            f"{args.html}: can't be written: {error.strerror or error}", kind="html_unwritable"
        ) from error
    return 0


def _rollout_fold(entry: "Entry", *, opened: bool) -> "list[Block]":
    from paddock.viewer import PAGE_LIMITS, Fold, entry_blocks, title, tone_of

    return [Fold(title(entry), entry_blocks(entry, PAGE_LIMITS)[1:], open=opened, tone=tone_of(entry))]


def _print(lines: "Iterable[TextLine]") -> None:
    """Print lines, coloured on a terminal."""
    if not sys.stdout.isatty():
        for line in lines:
            sys.stdout.write(line.text + "\n")
        sys.stdout.flush()
        return
    from rich.console import Console
    from rich.text import Text

    from paddock.viewer import STYLES

    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    for line in lines:
        console.print(Text(line.text, style=STYLES[line.tone]))
