"""Command line options as GNU getopt reads them, into an order that does not depend on how they were written.

Table   one string per command, one token per option: `r|recursive` a switch, `e|regexp=` takes a value, `f|file=@` a
        path, `color?` a value only where it is attached; the first name is the canonical one. `/g` at the end puts the
        option into group `g`: options of one group, and one option given twice, keep their order.
Law     switches may be clustered and repeated, long options take `=value` or the next word, options and operands mix
        (but not with `mixes=False`: then the first operand ends the options), and `--` ends the options. An option that
        the table lacks, a word that may expand to one, or a `-5` where the program takes none makes the result None.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from paddock.shell.syntax import Active, Lit, Word
from paddock.shell.words import literal

Takes = Literal["nothing", "text", "path", "optional"]
NumberPosition = Literal["anywhere", "first", "alone"]
"""Where `-5` is an option: anywhere; as the first word; as the first word before at most one operand, where `+5` is one
too."""


class Option(NamedTuple):
    name: str
    takes: Takes
    group: str
    """Options of one group keep their order; an option that is in no named group is a group of its own."""


class OptionValue(NamedTuple):
    """One option as it was given."""

    option: Option
    value: Word | None


class OptionArguments(NamedTuple):
    options: list[OptionValue]
    """Sorted by group."""
    operands: list[Word]
    dashes_at: int | None
    """How many operands stood before `--`; None: there was none."""


@cache
def table(text: str) -> dict[str, Option]:
    """The options of one table by every name."""
    by_name: dict[str, Option] = {}
    for token in text.split():
        spelled, _, group = token.partition("/")
        takes: Takes = "nothing"
        for mark, kind in (("=@", "path"), ("=", "text"), ("?", "optional")):
            if spelled.endswith(mark):
                spelled, takes = spelled.removesuffix(mark), kind  # type: ignore[assignment]
                break
        names = spelled.split("|")
        option = Option(names[0], takes, group or names[0])
        by_name.update(dict.fromkeys(names, option))
    return by_name


class _Unknown(Exception):  # noqa: N818
    pass


def read_options(
    words: Sequence[Word],
    options: dict[str, Option],
    *,
    number: str | None = None,
    number_position: NumberPosition = "anywhere",
    mixes: bool = True,
) -> OptionArguments | None:
    """Options and operands; `number` names the option that `-5` is short for. None: a word is not understood."""
    given: list[OptionValue] = []
    operands: list[Word] = []
    dashes_at: int | None = None
    if number_position == "alone" and _is_old_count(words):
        return None
    anywhere = number_position == "anywhere"
    rest = iter(words)
    try:
        for word in rest:
            if operands and not mixes:
                operands.extend((word, *rest))
                break
            text = word.text if word.text is not None else _unmatched(word)
            if text is None:
                if not _is_operand(word):
                    return None
                operands.append(word)
            elif text == "--":
                dashes_at = len(operands)
                operands.extend(rest)
            elif text.startswith("--"):
                given.append(_long(text, options, rest))
            elif text.startswith("-") and text != "-":
                given.extend(_short(text, options, rest, number if word is words[0] or anywhere else None))
            else:
                operands.append(word)
    except _Unknown:
        return None
    given.sort(key=lambda value: value.option.group)
    return OptionArguments(given, operands, dashes_at)


def _is_old_count(words: Sequence[Word]) -> bool:
    """Whether a program that takes `-5` alone is given one beside more, or a `+5`."""
    first = words[0].text if words else None
    if first is None or len(first) < 2 or first[0] not in "+-" or not first[1:].isdecimal():
        return False
    beside = words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]
    return first[0] == "+" or len(beside) > 1


def _unmatched(word: Word) -> str | None:
    """The text of a glob that begins with a dash: it matches nothing, as no expansion begins with one, and stays."""
    texts = [
        part.text for part in word.parts if isinstance(part, Lit) or (isinstance(part, Active) and "{" not in part.text)
    ]
    return "".join(texts) if len(texts) == len(word.parts) and texts[0].startswith("-") else None


def _is_operand(word: Word) -> bool:
    """Whether a word that expands can be no option, given that no expansion begins with a dash."""
    first = word.parts[0]
    if isinstance(first, Lit):
        return not first.text.startswith("-")
    return isinstance(first, Active) or first.quoted


def _long(text: str, options: dict[str, Option], rest: Iterator[Word]) -> OptionValue:
    name, equals, value = text[2:].partition("=")
    option = options.get(name) if len(name) > 1 else None
    if option is None or (equals and option.takes == "nothing"):
        raise _Unknown
    if equals:
        return OptionValue(option, literal(value))
    return OptionValue(option, _next(rest) if option.takes in ("text", "path") else None)


def _short(text: str, options: dict[str, Option], rest: Iterator[Word], number: str | None) -> Iterator[OptionValue]:
    if number and text.isascii() and text[1:].isdecimal():
        yield OptionValue(options[number], literal(text[1:]))
        return
    for index, letter in enumerate(text[1:], 2):
        option = options.get(letter)
        if option is None:
            raise _Unknown
        if option.takes == "nothing":
            yield OptionValue(option, None)
            continue
        attached = text[index:]
        if attached or option.takes == "optional":
            yield OptionValue(option, literal(attached) if attached else None)
        else:
            yield OptionValue(option, _next(rest))
        return


def _next(rest: Iterator[Word]) -> Word:
    word = next(rest, None)
    if word is None or (word.text is None and not _is_operand(word)):
        raise _Unknown
    return word
