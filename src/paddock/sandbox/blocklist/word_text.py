"""Words as texts: the arguments that a program would be given, as far as the line alone tells.

Law     literal text is itself; `{a,b}` is written out; a variable that the line itself has set is its value, any other
        expansion stays as it is spelled (`$name`, `$(program words)`, `*`). So a pattern sees `$(` only where a
        substitution stands, or where someone quoted those two characters.
Limits  braces are written out in words of up to `MAX_BRACED_CHARS` characters, until there are `MAX_BRACES` words; of a
        substitution `MAX_SHOWN` commands and `MAX_TEXT` characters are shown; variables are followed in the first
        `MAX_WORDS` words of a command.
"""

from collections.abc import Iterable, Mapping
from itertools import islice, pairwise
from typing import TypeAlias

from paddock.shell import Script, Word, simple_commands
from paddock.shell.syntax import Active, Arith, Lit, Param, Part, Sub

MAX_BRACES = 16
MAX_BRACED_CHARS = 500
MAX_SHOWN = 4
MAX_WORDS = 10_000
MAX_TEXT = 400

Variables: TypeAlias = Mapping[str, tuple[str, ...]]
"""What a name stands for, as the words that it would give unquoted."""
Char: TypeAlias = tuple[str, bool]
"""Some text, and whether braces in it expand."""


def texts(words: Iterable[Word], variables: Variables) -> list[str]:
    """All of `words`, in order."""
    result: list[str] = []
    for word in words:
        values = variables if len(result) < MAX_WORDS else {}
        result.extend([word.text] if word.text is not None else _expanded(word, values))
    return result


def text(word: Word, variables: Variables) -> str:
    """One word as one text."""
    return word.text if word.text is not None else "".join(_piece(part, variables) for part in word.parts)


def summary(script: Script) -> str:
    """The commands of a substitution in one line; what they substitute themselves is left out."""
    commands = islice(simple_commands(script), MAX_SHOWN)
    lines = (" ".join(_plain(word) for word in choice_chars.words[:8]) or "<" for choice_chars in commands)
    return " | ".join(lines)[:MAX_TEXT]


def _plain(word: Word) -> str:
    return "".join("$(...)" if isinstance(part, Sub) else _piece(part, {}) for part in word.parts)


def _piece(part: Part, variables: Variables) -> str:
    if isinstance(part, (Lit, Active)):
        return part.text
    if isinstance(part, Param):
        values = variables.get(part.text)
        return " ".join(values) if values is not None else f"${part.text}"
    if isinstance(part, Arith):
        return f"$(({part.text}))"
    return f"{part.kind}{summary(part.script)})"


def _expanded(word: Word, variables: Variables) -> list[str]:
    first = word.parts[0]
    if len(word.parts) == 1 and isinstance(first, Param) and (not first.quoted or first.text == "@"):
        values = variables.get(first.text)
        if values is not None:
            return list(values)
    pieces = [(_piece(part, variables), isinstance(part, Active)) for part in word.parts]
    whole = "".join(piece for piece, _ in pieces)
    if len(whole) > MAX_BRACED_CHARS or not any(active and "{" in piece for piece, active in pieces):
        return [whole]
    chars = [(char, active) for piece, active in pieces for char in piece]
    return ["".join(char for char, _ in choice_chars) for choice_chars in _braces(chars)]


def _braces(chars: list[Char]) -> list[list[Char]]:
    """The first `{a,b}` written out, then the rest; braces without a comma stay."""
    pending = [chars]
    done: list[list[Char]] = []
    while pending and len(pending) + len(done) < MAX_BRACES:
        here = pending.pop(0)
        group = _group(here)
        if group is None:
            done.append(here)
            continue
        choices = [here[left + 1 : right] for left, right in pairwise(group)]
        pending[:0] = [here[: group[0]] + choice + here[group[-1] + 1 :] for choice in choices]
    return done + pending


def _group(chars: list[Char]) -> list[int] | None:
    """Where the first brace opens, its commas, and where it closes."""
    open_braces: list[list[int]] = []
    first: list[int] | None = None
    for at, (char, active) in enumerate(chars):
        if not active:
            continue
        if char == "{":
            open_braces.append([at])
        elif char == "," and open_braces:
            open_braces[-1].append(at)
        elif char == "}" and open_braces:
            cuts = open_braces.pop()
            if len(cuts) > 1 and (first is None or cuts[0] < first[0]):
                first = [*cuts, at]
            if first and not open_braces:
                break
    return first
