"""Finds the final answer in what a model wrote, and writes answers in one form.

Text    the last assistant message that is not empty; of it, what follows the last `</think>`. A thought that was not
        closed is no answer.
Boxes   the last line with a `\\boxed{...}` (or `\\fbox`) counts. Its only box is the answer; different ones are a list,
        and are compared as a list: of "\\boxed{1} or \\boxed{2}" neither is paid for itself.
Line    without a box it is the last line that is not empty: what follows the last "answer" (is, :, =) in it; its
        formulas ($...$, \\(...\\), \\[...\\]) if it has some; else the whole, if that is no prose; else the only number
        in it. Several numbers in prose are no answer.
"""

import re
from typing import NamedTuple

from paddock.types import JsonObject
from paddock.types.responses import final_text

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MAX_BOXES = 64
"""More in one answer are not looked at, the last ones are."""
_MAX_CHARS = 10_000
"""Of a box and of a last line, that are looked at. No answer may be as long."""
_MARK = re.compile(r"\banswer\b(?:\s+is\b)?\s*[:=]*\s*", re.IGNORECASE)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_FORMULA = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:\s*/\s*\d+)?(?:\s*\\?%)?")
_WORD = re.compile(r"(?<!\\)\b[A-Za-z]{2,}")
_DELIMITERS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))
_SIGNS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "×": "\\times ",
        "·": "\\cdot ",
        "÷": "/",
        "⁄": "/",
        "π": "\\pi ",
        "∞": "\\infty ",
        "≤": "\\le ",
        "≥": "\\ge ",
        "∪": "\\cup ",
        "°": "^\\circ ",
        "²": "^2",
        "³": "^3",
        "½": "\\frac{1}{2}",
        "\u00a0": " ",
        "\u202f": " ",
    }
)
_SPACING = re.compile(r"(?<=\d)\\[,!;: ]\s*(?=\d{3}(?!\d))|\{,\}(?=\d{3}(?!\d))")
_SPACE_COMMANDS = re.compile(r"\\(?:[,!;:]|quad|qquad|displaystyle|left(?=[(\[|])|right(?=[)\]|]))")


class FoundAnswer(NamedTuple):
    """What the answer is, or why there is none."""

    text: str = ""
    """In the form that `written` gives."""
    problem: str = ""
    """`no_answer` or `several_answers`; empty: there is an answer."""


def answer_of(response: JsonObject) -> FoundAnswer:
    """The final answer of a response."""
    text = final_text(response)
    if text is None:
        return FoundAnswer(problem="no_answer")
    boxes = _boxes(text)
    return _found(boxes) if boxes else _last_line(text)


def written(text: str) -> str:
    """An answer without delimiters, outer boxes, final dots and ways of spacing."""
    text = " ".join(text.translate(_SIGNS).split()).rstrip(". ")
    changed = True
    while changed:
        changed = False
        for left, right in _DELIMITERS:
            if text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right):
                inner = text[len(left) : -len(right)].strip()
                if inner and left not in inner:
                    text, changed = inner, True
        match = _BOX.match(text)
        if match is not None and _end_of_group(text, match.end()) == len(text):
            text, changed = text[match.end() : -1].strip(), True
    text = _SPACING.sub("", text.replace("\\$", ""))
    return " ".join(_SPACE_COMMANDS.sub(" ", text).replace("$", "").split()).rstrip(".")


def is_balanced(text: str) -> bool:
    """Whether each brace has its other one: what is not could end the box that it is put into."""
    return _end_of_group(text + "}", 0) == len(text) + 1


def depth_of(text: str) -> int:
    """How deep brackets of any kind are nested."""
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


def _boxes(text: str) -> list[str]:
    """The contents of the boxes of the last line that has some, outermost ones alone."""
    line: list[str] = []
    end = -1
    for match in list(_BOX.finditer(text))[-_MAX_BOXES:]:
        if match.start() < end:
            continue  # inside another
        stop = _end_of_group(text, match.end())
        if stop < 0:
            continue  # not closed: cut off
        if end >= 0 and "\n" in text[end : match.start()]:
            line = []
        line.append(text[match.end() : stop - 1])
        end = stop
    return line


def _end_of_group(text: str, start: int) -> int:
    """The index after the brace that closes a group whose content begins at `start`; -1: none does. A group that is
    longer than may be looked at ends there."""
    depth = 1
    for match in _BRACE.finditer(text, start, start + _MAX_CHARS):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return start + _MAX_CHARS if len(text) > start + _MAX_CHARS else -1


def _found(parts: list[str]) -> FoundAnswer:
    different = list(dict.fromkeys(map(written, parts)))
    if any(_BOX.search(part) for part in different):
        return FoundAnswer(problem="several_answers")
    text = ", ".join(different)
    return FoundAnswer(text) if text.strip(" ,") else FoundAnswer(problem="no_answer")


def _last_line(text: str) -> FoundAnswer:
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    line = line[-_MAX_CHARS // 5 :].replace("**", "").replace("__", "").strip().lstrip("#> ")
    marks = list(_MARK.finditer(line))
    if marks:
        line = line[marks[-1].end() :].strip()
    formulas = ["".join(filter(None, groups)) for groups in _FORMULA.findall(line)]
    if formulas:
        return _found(formulas)
    if marks or not _WORD.search(line):
        prose = _WORD.search(line) is not None and _NUMBER.search(line) is not None
        if not prose:
            return _found([line])
    numbers = list(dict.fromkeys(_NUMBER.findall(line)))
    if len(numbers) > 1:
        return FoundAnswer(problem="several_answers")
    return _found(numbers) if numbers else FoundAnswer(problem="no_answer")
