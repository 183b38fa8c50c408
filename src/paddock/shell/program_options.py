"""What the options of programs are: their names and values as the programs' own help texts say, and which are looks.

Source  `option_tables/*.options.toml`, by `scripts/option_tables.py`; `option_tables/decisions.toml`, by hand.
Shapes  `options_of("git diff")` -> every name of a command's options -> `ProgramOption`. `canonical_words` spells the
        words of a command in one way: long names, values attached, looks left out, options in front and in order.
        `read_words` tells options from operands.
Law     two commands with equal canonical words do the same: one option given twice keeps its order, an option that a
        later one may undo (`exclusive`, or `--x` and `--no-x`) keeps all as they are, and so does one whose place among
        operands counts (`ordered`).
Errors  None: a command that is in no decision, or an option that its table lacks.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from posixpath import normpath
from typing import Any, Literal, NamedTuple

Takes = Literal["switches", "values", "optional", "pairs"]
"""Nothing; a value, attached or as the next word; an attached value or none; two words."""
_KINDS: tuple[Takes, ...] = ("switches", "values", "optional", "pairs")
_MAX_WORDS = 200
_MAX_LETTERS = 100
"""Of options in one word; more are not read."""


@dataclass(frozen=True, slots=True)
class ProgramOption:
    """One option of a command."""

    name: str
    """The name by which it is compared: a long one where there is one."""
    names: frozenset[str]
    takes: Takes


@dataclass(frozen=True, slots=True)
class CommandDecision:
    """What people decide about a command's options."""

    looks: frozenset[str] = frozenset()
    twins: tuple[frozenset[str], ...] = ()
    exclusive: tuple[frozenset[str], ...] = ()
    ordered: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()
    mixes: bool = True
    ends: frozenset[str] = frozenset()
    number: str | None = None
    paths: bool = False


@cache
def _tables() -> Mapping[str, Any]:
    """Return the tables of all commands, read once."""
    found: dict[str, Any] = {}
    for entry in files("paddock.shell").joinpath("option_tables").iterdir():
        if entry.name.endswith(".options.toml"):
            tables = tomllib.loads(entry.read_text(encoding="utf-8"))
            found.update((name, table) for name, table in tables.items() if isinstance(table, dict))
    return found


@cache
def decisions() -> Mapping[str, CommandDecision]:
    """Return what is decided of each command, by every name that it has."""
    text = files("paddock.shell").joinpath("option_tables", "decisions.toml").read_text(encoding="utf-8")
    found: dict[str, CommandDecision] = {}
    for command, table in tomllib.loads(text).items():
        aliases = table.pop("aliases", ())
        sets = {key: tuple(frozenset(names.split()) for names in table.get(key, ())) for key in _SETS}
        names = {key: frozenset(table.get(key, ())) for key in ("looks", "ordered", "attached", "ends")}
        for name in (command, *aliases):
            found[name] = CommandDecision(**{**table, **sets, **names})
            _ALIASES[name] = command
    return found


_SETS = ("twins", "exclusive")
_ALIASES: dict[str, str] = {}


@cache
def options_of(command: str) -> Mapping[str, ProgramOption]:
    """Return the options of a command by every name; empty: there is no table of it."""
    table = _tables().get(command, {})
    rows = [(set(names.split()), kind) for kind in _KINDS for names in table.get(kind, ())]
    decision = decisions().get(command, CommandDecision())
    for twins in decision.twins:
        named = [row for row in rows if row[0] & twins]
        rows = [row for row in rows if not row[0] & twins]
        rows.append((set(twins).union(*(names for names, _ in named)), named[0][1] if named else "switches"))
    found: dict[str, ProgramOption] = {}
    for names, kind in rows:
        takes: Takes = "optional" if names & decision.attached else kind
        option = ProgramOption(_plainest(names), frozenset(names), takes)
        found.update(dict.fromkeys(names, option))
    return found


def _plainest(names: set[str]) -> str:
    return min(names, key=lambda name: (not name.startswith("--"), name))


def command_of(words: Sequence[str]) -> tuple[str, int] | None:
    """Return the command that some words name, by its own name, and how many of them do; None: nothing is decided."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in decisions():
            return _ALIASES[name], count
    return None


def canonical_words(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of a command in one spelling; None: it is not known which that is."""
    found = command_of(words)
    if found is None or len(words) > _MAX_WORDS:
        return None
    command, count = found
    decision = decisions()[command]
    table = options_of(command)
    rest = words[count:]
    read = read_words(rest, table, number=decision.number, mixes=decision.mixes, ends=decision.ends)
    if read is None:
        return None
    given = [(option.name, _spelled(option, values)) for option, values in read.options]
    operands = [rest[at] for at in read.operands]
    if read.separator is not None:
        operands.insert(read.separator, "--")
    names = {name for name, _ in given}
    for rivals in decision.exclusive:
        if len(names & {table.get(one, _NONE).name for one in rivals}) > 1:
            return None
    if operands and names & {table.get(one, _NONE).name for one in decision.ordered}:
        return None
    kept = [(name, text) for name, text in given if not table.get(name, _NONE).names & decision.looks]
    names = {name for name, _ in kept}
    if any("--no-" + name[2:] in names for name in names):
        return None
    kept.sort(key=lambda pair: pair[0])
    if decision.paths:
        operands = [normpath(word) if word and "://" not in word else word for word in operands]
    return (*command.split(), *(word for _, texts in kept for word in texts), *operands)


_NONE = ProgramOption("", frozenset(), "switches")


class OptionWords(NamedTuple):
    """The words behind a command, read."""

    options: tuple[tuple[ProgramOption, tuple[str, ...]], ...]
    """In order, each with its values."""
    operands: tuple[int, ...]
    """Where the operands stand among the words."""
    separator: int | None
    """How many operands stand before `--`; None: there is no `--`."""


def read_words(
    words: Sequence[str],
    options: Mapping[str, ProgramOption],
    *,
    number: str | None = None,
    mixes: bool = True,
    ends: Set[str] = frozenset(),
) -> OptionWords | None:
    """Tell options, by their names, from operands; None: an option is not known, or lacks its value. `number`, `mixes`
    and `ends` are a `CommandDecision`'s."""
    given: list[tuple[ProgramOption, tuple[str, ...]]] = []
    operands: list[int] = []
    separator = None
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            separator = len(operands)
            break
        if not word.startswith("-") or word == "-":
            operands.append(index - 1)
            if not mixes:
                break
            continue
        if number and word[1:].isdecimal():
            given.append((options[number], (word[1:],)))
            continue
        for option, value in _split(word, options):
            if option is None:
                return None
            needed = max({"values": 1, "pairs": 2}.get(option.takes, 0) - (value is not None), 0)
            if index + needed > len(words):
                return None
            given.append((option, (*(() if value is None else (value,)), *words[index : index + needed])))
            index += needed
        if given[-1][0].name in ends:
            break
    return OptionWords(tuple(given), (*operands, *range(index, len(words))), separator)


def _spelled(option: ProgramOption, values: Sequence[str]) -> tuple[str, ...]:
    if len(values) == 1 and option.name.startswith("--"):
        return (f"{option.name}={values[0]}",)
    if option.takes == "optional":
        return (option.name + "".join(values),)
    return (option.name, *values)


def _split(word: str, options: Mapping[str, ProgramOption]) -> Iterator[tuple[ProgramOption | None, str | None]]:
    """Yield the options of one word, with the values in it; no option: it is not known."""
    name, equals, value = word.partition("=")
    if word.startswith("--") or word in options or (len(name) > 2 and name in options):
        option = options.get(name)
        takes_it = option is not None and (not equals or option.takes in ("values", "optional"))
        yield (option if takes_it else None), (value if equals else None)
        return
    for at, letter in enumerate(word[1:], 2):
        option = options.get("-" + letter) if at <= _MAX_LETTERS else None
        if option is None or option.takes == "switches":
            yield option, None
            if option is None:
                return
            continue
        yield option, word[at:] or None
        return
