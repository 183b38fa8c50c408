"""The words of search programs: what their options ask for.

Source  the help texts of GNU grep, git grep, ripgrep, ag and ack, by `paddock.shell.program_options`: the names of an
        option and what it takes; what it asks for (`Meaning`) is decided here.
Errors  None: an option that is in no table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from paddock.shell.program_options import ProgramOption, options_of, read_words

Meaning = str
"""`look`: only how the output looks, or files that are searched beside those that a person has in mind."""


class ProgramWords(NamedTuple):
    """What a program is told."""

    options: tuple[tuple[Meaning, str], ...]
    """In order; without a value an empty text."""
    operands: tuple[str, ...]
    operand_indexes: tuple[int, ...]
    """Where the operands stand among the words."""
    separator: int | None
    """How many operands stand before `--`; None: there is no `--`."""


_SHARED = """
ignore_case: -i
word: -w
invert: -v
names: -l
count: -c
only: -o
max: -m
"""
_MEANINGS = {
    "grep": _SHARED
    + """
match_case: --no-ignore-case
line: -x
basic: -G
extended: -E
fixed: -F
perl: -P
pattern: -e
names_without: -L
quiet: -q
after: -A
before: -B
context: -C
recursive: -r -R
include: --include
exclude: --exclude
exclude_dir: --exclude-dir
look: -n -H -h -a -s -I --line-buffered --binary-files --color
""",
    "git grep": _SHARED
    + """
basic: -G --basic-regexp
extended: -E --extended-regexp
fixed: -F
perl: -P
pattern: -e=
names: --files-with-matches --name-only
names_without: -L --files-without-match
quiet: -q
after: -A
before: -B
context: -C --context
look: -n -H -h -a -I -r --heading --break --full-name --untracked --textconv --column --color --no-color
""",
    "rg": _SHARED
    + """
smart_case: -S
match_case: -s
line: -x
fixed: -F
perl: -P
pattern: -e
names_without: --files-without-match
quiet: -q
after: -A
before: -B
context: -C
files: --files
columns: -M
include: -g
type: -t
not_type: -T
look: -n -N -H -I -a -L -p -. -u -j --heading --no-heading --no-hidden --no-follow --no-ignore --no-ignore-vcs
look: --no-config --no-messages --line-buffered --column --no-column --vimgrep --trim --stats --max-columns-preview
look: --color --colors --sort --sortr
""",
    "ack": _SHARED
    + """
smart_case: -S
match_case: -I
fixed: -Q
names_without: -L
after: -A
before: -B
context: -C= --context=
type: -t
look: -r -H -h -s --color --nocolor --column --nocolumn --group --nogroup --heading --noheading --break --nobreak
look: --nopager --flush
""",
    "ag": _SHARED
    + """
smart_case: -S
match_case: -s
fixed: -Q -F
names_without: -L
after: -A= --after
before: -B= --before
context: -C= --context
look: -a -t -u -f -H --hidden --color --nocolor --column --group --nogroup --noheading --break --nobreak --numbers
look: --nonumbers --filename --nofilename --silent --stats
""",
}
"""One name of each option stands for all that the program's help gives it; `=`: this name takes the next word as its
value, which the help does not say."""
_FILE_TYPES = frozenset({"ack", "ag"})
"""Programs with an option of its own for each type of file, of which `--python` is read."""
_NUMBER = {"grep": "-C", "git grep": "-C"}
"""The option that `-5` is short for."""


@cache
def search_options(program: str) -> Mapping[str, ProgramOption]:
    """Return a program's options by every name, each called by its meaning. Raises KeyError: its help lacks a name."""
    options = options_of(program)
    lines = [line.partition(": ") for line in _MEANINGS[program].strip().splitlines()]
    named = [(meaning, name) for meaning, _, names in lines for name in names.split()]
    found: dict[str, ProgramOption] = {}
    for meaning, name in named:
        option = replace(options[name.removesuffix("=")], name=meaning)
        found = {**dict.fromkeys(option.names, option), **found}
        if name.endswith("="):
            found[name[:-1]] = replace(option, takes="values")
    if program in _FILE_TYPES:
        found["--python"] = ProgramOption("python", frozenset({"--python"}), "switches")
    return found


def program_words(program: str, words: Sequence[str]) -> ProgramWords | None:
    """Read the words behind a program's name."""
    read = read_words(words, search_options(program), number=_NUMBER.get(program))
    if read is None:
        return None
    options = tuple((option.name, "".join(values)) for option, values in read.options)
    return ProgramWords(options, tuple(words[at] for at in read.operands), read.operands, read.separator)
