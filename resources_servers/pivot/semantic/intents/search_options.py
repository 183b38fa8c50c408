"""The words of search programs: what their options ask for.

Source  the manuals of GNU grep, git grep, ripgrep, ag and ack.
Shapes  a table names each option by what it asks for (`Meaning`); a meaning that ends in `=` takes a value.
Errors  None: an option that is in no table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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


def _table(text: str) -> Mapping[str, Meaning]:
    found: dict[str, Meaning] = {}
    for line in text.strip().splitlines():
        meaning, _, options = line.partition(":")
        found.update((option, meaning.strip()) for option in options.split())
    return found


_COMMON = """
ignore_case: -i --ignore-case
word: -w --word-regexp
line: -x --line-regexp
invert: -v --invert-match
fixed: -F --fixed-strings
names: -l --files-with-matches
count: -c --count
only: -o --only-matching
quiet: -q --quiet
look: -n --line-number -H --with-filename -h --no-filename -a --text --no-messages --line-buffered --column
look?: --color --colour
pattern=: -e --regexp
after=: -A --after-context
before=: -B --before-context
context=: -C --context
max=: -m --max-count
"""
_GREP = (
    _COMMON
    + """
ignore_case: -y
match_case: --no-ignore-case
basic: -G --basic-regexp
extended: -E --extended-regexp
perl: -P --perl-regexp
names_without: -L --files-without-match
recursive: -r -R --recursive --dereference-recursive
look: -s -I
look=: --binary-files
include=: --include
exclude=: --exclude
exclude_dir=: --exclude-dir
"""
)
_GIT_GREP = (
    _COMMON
    + """
basic: -G --basic-regexp
extended: -E --extended-regexp
perl: -P --perl-regexp
names: --name-only
names_without: -L --files-without-match
look: -I --heading --break --full-name --untracked -r --recursive --textconv --no-color
"""
)
_RG = (
    _COMMON
    + """
smart_case: -S --smart-case
match_case: -s --case-sensitive
perl: -P --pcre2
names_without: --files-without-match
files: --files
look: -N --no-line-number -I -L --follow -p --pretty --heading --no-heading --hidden -. --no-ignore --no-ignore-vcs
look: -u -uu -uuu --unrestricted --vimgrep --trim --stats --no-config --max-columns-preview --no-follow --no-hidden
look=: -j --threads --sort --sortr --colors
columns=: -M --max-columns
include=: -g --glob
: -h
type=: -t --type
not_type=: -T --type-not
"""
)
_ACK = (
    _COMMON
    + """
smart_case: -S --smart-case
match_case: -s --case-sensitive
fixed: -Q --literal
names_without: -L --files-without-matches
look: -r -R --recurse --nocolor --nogroup --noheading --group --numbers --nobreak --nopager --hidden -u --unrestricted
type=: --type
python: --python --py
: -n -H -I
"""
)
TABLES = {
    "grep": _table(_GREP),
    "git grep": _table(_GIT_GREP),
    "rg": _table(_RG),
    "ag": _table(_ACK),
    "ack": _table(_ACK),
}
_NUMBERS_ARE_CONTEXT = frozenset({"grep", "git grep"})


def program_words(program: str, words: Sequence[str]) -> ProgramWords | None:
    """Read the words behind a program's name."""
    table = TABLES[program]
    options: list[tuple[Meaning, str]] = []
    operands: list[int] = []
    separator = None
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if separator is not None or word == "-" or not word.startswith("-"):
            operands.append(index - 1)
        elif word == "--":
            separator = len(operands)
        elif word[1:].isdigit() and program in _NUMBERS_ARE_CONTEXT:
            options.append(("context", word[1:]))
        else:
            for meaning, value in _options(word, table):
                if meaning.endswith("=") and value is None:
                    if index == len(words):
                        return None
                    value = words[index]
                    index += 1
                if not meaning:
                    return None
                options.append((meaning.rstrip("=?"), value or ""))
    texts = tuple(words[at] for at in operands)
    return ProgramWords(tuple(options), texts, tuple(operands), separator)


def _options(word: str, table: Mapping[str, Meaning]) -> Iterator[tuple[Meaning, str | None]]:
    """Yield the options of one word with the values in it; an empty meaning: unknown."""
    name, equals, value = word.partition("=")
    if word.startswith("--"):
        meaning = table.get(name, "")
        takes = meaning.endswith(("=", "?"))
        yield (meaning if takes or not equals else "", value if equals else None)
        return
    if word in table and len(word) > 2:
        yield table[word], None
        return
    for at, letter in enumerate(word[1:], start=2):
        meaning = table.get("-" + letter, "")
        if meaning.endswith("="):
            yield meaning, word[at:] or None
            return
        yield meaning, None
