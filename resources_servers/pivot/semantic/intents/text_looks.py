"""Whether two texts of a file differ only in looks: blanks at ends of lines; of Python, comments and formatting.

Law     of two files of Python that both parse, the trees must be equal, docstrings and strings with them; so must the
        comments that tools read (`noqa`, `type:` and their like). Of other files, blanks at the ends of lines and last
        newlines are looks, but not in Markdown, where two blanks break a line, nor in patches. A change that is itself
        one of looks only is the same as nothing but itself.
Units   texts above `MAX_CHARS` are compared as they are.
"""

import ast
import re
import textwrap
import warnings
from posixpath import splitext

MAX_CHARS = 60_000
_PYTHON = frozenset({".py", ".pyi"})
_EXACT = frozenset({".md", ".markdown", ".mdx", ".patch", ".diff", ".ipynb", ".snap", ".ambr"})
_DIRECTIVE = re.compile(
    r"#(?:!.*|.*\b(?:coding|noqa|nosec|fmt|isort|yapf|pragma|pylint|mypy|pyright|ruff|type|doctest)\b.*)"
)


def same_looks(path: str, before: str, expected: str, actual: str) -> bool:
    """Say whether what became of a file's text differs in looks only. `before` is "" where it is new or not known."""
    if expected.removesuffix("\n") == actual.removesuffix("\n"):
        return True
    suffix = splitext(path)[1].lower()
    if max(len(expected), len(actual), len(before)) > MAX_CHARS or suffix in _EXACT:
        return False
    if suffix in _PYTHON and (trees := (_tree(expected), _tree(actual))) != (None, None):
        return trees[0] == trees[1] != _tree(before) and _directives(expected) == _directives(actual)
    return _trimmed(expected) == _trimmed(actual) != _trimmed(before)


def same_fragment_looks(path: str, old: str, expected: str, actual: str) -> bool:
    """Say the same of two texts for the same part of a file whose other parts are not known.

    What is around the part may stand on its first and last line, where comments would swallow it.
    """
    suffix = splitext(path)[1].lower()
    if suffix in _EXACT or max(len(old), len(expected), len(actual)) > MAX_CHARS:
        return False
    firsts, lasts = ([text.split("\n")[at] for text in (expected, actual)] for at in (0, -1))
    if suffix not in _PYTHON:
        return lasts[0] == lasts[1] and _trimmed(expected) == _trimmed(actual) != _trimmed(old)
    if (firsts[0] != firsts[1] and not _margin(old)) or (lasts[0] != lasts[1] and ("#" in lasts[1] or "" in lasts)):
        return False
    trees = [_tree(textwrap.dedent(text)) for text in (old, expected, actual)]
    margins = {_margin(text) for text in (old, expected, actual) if text.strip()}
    same = trees[1] == trees[2] != trees[0] and None not in trees and len(margins) == 1
    return same and _directives(expected) == _directives(actual)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).rstrip("\n")


def _tree(text: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _directives(text: str) -> list[str]:
    return _DIRECTIVE.findall(text)


def _margin(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]
