"""Whether two texts of a file differ only in looks: blanks at ends of lines; of Python, comments and formatting.

Law     of two files of Python that both parse, the trees must be equal, docstrings and strings with them; so must the
        comments that tools read (`noqa`, `type:` and their like). JSON is compared by value. In languages with braces
        blank lines are looks, unless a text of several lines may be there. Of other files, blanks at the ends of lines
        and last newlines are looks, but not in Markdown, where two blanks break a line, nor in patches. A change that
        is itself one of looks only is the same as nothing but itself.
Units   texts above `MAX_CHARS`, and what a judgement has no steps left for, are compared as they are.
"""

import ast
import json
import re
import textwrap
from collections.abc import Sequence
from posixpath import splitext
from typing import NamedTuple

from paddock.shell import BudgetError, parse_python, take
from paddock.shell.python_code import take_for_dump
from paddock.tools import same_json

MAX_CHARS = 60_000
_CHARS_PER_STEP = 500
_PYTHON = frozenset({".py", ".pyi"})
_EXACT = frozenset({".md", ".markdown", ".mdx", ".patch", ".diff", ".ipynb", ".snap", ".ambr"})
_BRACES = frozenset(
    [".c", ".cc", ".cpp", ".cs", ".cxx", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt", ".mjs", ".ts", ".tsx"]
)
_BLANK_LINES_COUNT = re.compile(
    r"`|\"\"\"|R\"|@\$?\"|\\\n"  # a text of several lines, or a line that goes on in the next one
    r"|go:|\+build|\"C\"|@ts-|next-line|NEXTLINE"  # a comment about the line below it
)
_JSON_NAMES = frozenset({".babelrc", ".eslintrc", ".prettierrc"})
_DIRECTIVE = re.compile(
    r"#(?:!.*|.*\b(?:coding|noqa|nosec|fmt|isort|yapf|pragma|pylint|mypy|pyright|ruff|type|doctest)\b.*)"
)


def same_looks(path: str, before: str, expected: str, actual: str) -> bool:
    """Say whether what became of a file's text differs in looks only. `before` is "" where it is new or not known."""
    if expected.removesuffix("\n") == actual.removesuffix("\n"):
        return True
    try:
        return _same_looks(path, before, expected, actual)
    except BudgetError:
        return False


def _same_looks(path: str, before: str, expected: str, actual: str) -> bool:
    suffix = splitext(path)[1].lower()
    if max(len(expected), len(actual), len(before)) > MAX_CHARS or suffix in _EXACT:
        return False
    if suffix in _PYTHON and (parse_python(expected), parse_python(actual)) != (None, None):
        same = _are_one_tree(expected, actual) and not _are_one_tree(expected, before)
        return same and _directives(expected) == _directives(actual)
    if (suffix == ".json" or path.rpartition("/")[2] in _JSON_NAMES) and _are_one_value(expected, actual):
        return not _are_one_value(expected, before)
    trimmed = (
        _without_blank_lines if suffix in _BRACES and not _BLANK_LINES_COUNT.search(expected + actual) else _trimmed
    )
    return trimmed(expected) == trimmed(actual) != trimmed(before)


def same_fragment_looks(path: str, old: str, expected: str, actual: str) -> bool:
    """Say the same of two texts for the same part of a file whose other parts are not known.

    What is around the part may stand on its first and last line, where comments would swallow it.
    """
    try:
        return _same_fragment_looks(path, old, expected, actual)
    except BudgetError:
        return False


def _same_fragment_looks(path: str, old: str, expected: str, actual: str) -> bool:
    suffix = splitext(path)[1].lower()
    if suffix in _EXACT or max(len(old), len(expected), len(actual)) > MAX_CHARS:
        return False
    firsts, lasts = ([text.split("\n")[at] for text in (expected, actual)] for at in (0, -1))
    if suffix not in _PYTHON:
        return lasts[0] == lasts[1] and _trimmed(expected) == _trimmed(actual) != _trimmed(old)
    if (firsts[0] != firsts[1] and not _margin(old)) or (lasts[0] != lasts[1] and ("#" in lasts[1] or "" in lasts)):
        return False
    first, wanted, given = (textwrap.dedent(text) for text in (old, expected, actual))
    margins = {_margin(text) for text in (old, expected, actual) if text.strip()}
    same = len(margins) == 1 and parse_python(first) is not None
    same = same and _are_one_tree(wanted, given) and not _are_one_tree(wanted, first)
    return same and _directives(expected) == _directives(actual)


def _trimmed(text: str) -> str:
    take(1 + len(text) // _CHARS_PER_STEP)
    if " \n" not in text and "\t\n" not in text:
        return text.rstrip(" \t").rstrip("\n")
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).rstrip("\n")


def _without_blank_lines(text: str) -> str:
    return "\n".join(line for line in _trimmed(text).split("\n") if line)


def _are_one_value(left: str, right: str) -> bool:
    """Say whether two texts are the same JSON, in which the order of names says nothing (RFC 8259)."""
    take(1 + (len(left) + len(right)) // _CHARS_PER_STEP)
    try:
        return same_json(json.loads(left), json.loads(right))
    except (ValueError, RecursionError):
        return False


def _are_one_tree(left: str, right: str) -> bool:
    """Say whether two sources have the same tree. Of statements that are written alike it is not looked at."""
    own, other = parse_python(left), parse_python(right)
    if own is None or other is None or len(own.body) != len(other.body):
        return False
    lines = _lines(left), _lines(right)
    for mine, theirs in zip(own.body, other.body, strict=True):
        written = _as_written(mine, lines[0]), _as_written(theirs, lines[1])
        if written[0] == written[1]:
            continue
        take_for_dump("\n".join(line for one in written for line in one.lines))
        if ast.dump(mine) != ast.dump(theirs):
            return False
    return True


def _lines(text: str) -> list[str]:
    """Return a text's lines as Python counts them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


class _StatementText(NamedTuple):
    """A statement's text, with what else is on its lines."""

    start: int
    end: int | None
    lines: Sequence[str]


def _as_written(node: ast.stmt, lines: Sequence[str]) -> _StatementText:
    first = min([node, *getattr(node, "decorator_list", ())], key=lambda part: part.lineno)
    return _StatementText(first.col_offset, node.end_col_offset, lines[first.lineno - 1 : node.end_lineno])


def _directives(text: str) -> list[str]:
    return _DIRECTIVE.findall(text)


def _margin(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]
