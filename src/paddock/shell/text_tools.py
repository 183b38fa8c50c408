"""Normal forms that `cat`, `head`, `tail`, `sed` and `grep` share: a range of lines of a file, and a set of patterns.

Law     `sed -n 5,9p f`, `head -n 9 f | tail -n +5` and `tail -n +5 f | head -n 5` are one form, ("lines", 5, 9, f, _).
        Patterns that are plain words mean the same in every dialect, so their dialect is left out.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from paddock.shell.form import CommandForm, FormContext, may_vanish, word_form
from paddock.shell.options import OptionArguments, OptionValue
from paddock.shell.paths import Form, path_form
from paddock.shell.syntax import Word

STDIN: Form = ("stdin",)
_RANGE = re.compile(r"([0-9]+)(?:,([0-9]+|\$))?p")
_DELETE = re.compile(r"([0-9]+)(?:,([0-9]+|\$))?d")
_ADDRESS = r"(?:[0-9]+|\$)?(?:,(?:[0-9]+|\$))?"
_PLAIN_SED = re.compile(rf"{_ADDRESS}(?:s([/|#,:@!])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gpiI0-9]*+|[dpq=])")
_PLAIN_PATTERN = re.compile(r"[A-Za-z0-9_ ]+")


def lines(first: int, last: int | None, source: Form, *, early: bool) -> Form:
    """Lines `first` to `last`, counted from 1; `last` None: to the end. `early`: stops reading after the last one."""
    return ("lines", first, last, source, early and source == STDIN and last is not None)


def lines_of_lines(outer: Form, inner: Form) -> Form | None:
    """The lines `outer` of the lines `inner`; None: not both are ranges of one file."""
    if outer[0] != "lines" or inner[0] != "lines" or outer[3] != STDIN or inner[3] == STDIN:
        return None
    (first, last), (low, high) = _bounds(outer), _bounds(inner)
    end = high if last is None else low + last - 1 if high is None else min(high, low + last - 1)
    return ("lines", low + first - 1, end, inner[3], False)


def _bounds(form: Form) -> tuple[int, int | None]:
    _, first, last, *_ = form
    assert isinstance(first, int)
    assert last is None or isinstance(last, int)
    return first, last


def rewrite(name: str, arguments: OptionArguments, context: FormContext, stdin: Form | None) -> CommandForm | None:
    """`cat`, `head` or `tail` of one file, as a range of lines."""
    if name not in ("cat", "head", "tail"):
        return None
    source = _single_source(arguments.operands, context, stdin)
    if source is None:
        return None
    took = not arguments.operands and stdin is not None
    counts = [option.value.text if option.value else None for option in arguments.options if option.option.name == "n"]
    if name == "cat":
        return (
            CommandForm(lines(1, None, source, early=False), sure=True, took_input=took)
            if not arguments.options
            else None
        )
    if len(counts) != len(arguments.options) or len(counts) > 1:
        return None
    count = counts[0] if counts else "10"
    if count is None or not re.fullmatch(r"[+-]?[0-9]{1,9}", count):
        return None
    if name == "head":
        return (
            CommandForm(lines(1, int(count), source, early=True), sure=True, took_input=took)
            if count.isdecimal()
            else None
        )
    if count.startswith("+"):
        return CommandForm(lines(max(1, int(count)), None, source, early=False), sure=True, took_input=took)
    return CommandForm(("last lines", abs(int(count)), source), sure=True, took_input=took)


def _single_source(operands: Sequence[Word], context: FormContext, stdin: Form | None) -> Form | None:
    if len(operands) > 1 or any(may_vanish(word) or word.text is None for word in operands):
        return None
    if not operands or operands[0].text == "-":
        return stdin if stdin and not operands else STDIN
    return path_form(operands[0], context.directory, context.part)


class SedEdit(NamedTuple):
    """A `sed` script and what it is applied to."""

    script: str
    files: list[Word]
    options: list[OptionValue]
    """The options without the script."""


def edit(arguments: OptionArguments) -> SedEdit | None:
    """None: the script is not literal, or comes from a file."""
    given = arguments.options
    scripts = [option.value.text if option.value else None for option in given if option.option.name == "e"]
    files = list(arguments.operands)
    if any(option.option.name == "f" for option in given):
        return None
    if not scripts and files:
        scripts = [files.pop(0).text]
    texts = [text for text in scripts if text is not None]
    if not texts or len(texts) != len(scripts):
        return None
    return SedEdit("\n".join(texts), files, [option for option in given if option.option.name != "e"])


def is_plain(script: str) -> bool:
    """Whether a script is one command that reads and writes no other file and prints no file name."""
    return _PLAIN_SED.fullmatch(script) is not None


def edit_lines(change: SedEdit, context: FormContext, stdin: Form | None) -> CommandForm | None:
    """`sed` where it does no more than choose a range of lines of one file."""
    names = {option.option.name for option in change.options} - {"E"}
    source = _single_source(change.files, context, stdin)
    script = change.script.strip().rstrip(";").rstrip()
    if source is None or not names <= {"n"}:
        return None
    took = not change.files and stdin is not None
    form = _range(script, source) if names else _without(script, source)
    return CommandForm(form, sure=True, took_input=took) if form else None


def _range(script: str, source: Form) -> Form | None:
    """`sed -n`."""
    if script == "p":
        return lines(1, None, source, early=False)
    if script == "$p":
        return ("last lines", 1, source)
    match = _RANGE.fullmatch(script)
    if match is None or int(match[1]) == 0:
        return None
    first = int(match[1])
    last = None if match[2] == "$" else max(first, int(match[2] or first))
    return lines(first, last, source, early=False)


def _without(script: str, source: Form) -> Form | None:
    """`sed` that prints by default. Its `q` is no range: it ends a last line that has no newline."""
    match = _DELETE.fullmatch(script)
    if match is None or int(match[1]) == 0:
        return None
    first = int(match[1])
    if match[2] == "$":
        return lines(1, first - 1, source, early=False)
    return lines(max(first, int(match[2] or first)) + 1, None, source, early=False) if first == 1 else None


class Patterns(NamedTuple):
    """What `grep` looks for, and the rest of its command line."""

    form: Form
    options: list[OptionValue]
    files: list[Word]


def patterns(arguments: OptionArguments, context: FormContext) -> Patterns | None:
    """None: there is no pattern."""
    explicit = [option.value for option in arguments.options if option.option.name == "e" and option.value]
    options = [option for option in arguments.options if option.option.name != "e"]
    files = list(arguments.operands)
    from_file = any(option.option.name == "f" for option in options)
    if not explicit and not from_file:
        if not files:
            return None
        if may_vanish(files[0]) or any(not getattr(part, "quoted", True) for part in files[0].parts):
            return None
        explicit = [files.pop(0)]
    dialects = [option.option.name for option in options if option.option.group == "matcher"]
    others = [option for option in options if option.option.group != "matcher"]
    alternatives = _alternatives([word.text for word in explicit], dialects)
    if alternatives is not None and not from_file:
        return Patterns(("any of", *alternatives), others, files)
    return Patterns(("patterns", *(word_form(word, context) for word in explicit)), options, files)


def _alternatives(texts: Sequence[str | None], dialects: Sequence[str]) -> list[str] | None:
    """The plain words that any of the patterns matches; None: a pattern is more than alternatives of plain words."""
    if len(dialects) > 1 or "P" in dialects:
        return None
    separator = {"E": "|", "F": "\n"}.get("".join(dialects), "\\|")
    words: set[str] = set()
    for text in texts:
        if text is None:
            return None
        words.update(text.split(separator))
    return sorted(words) if all(map(_PLAIN_PATTERN.fullmatch, words)) else None
