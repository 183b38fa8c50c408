"""Tests made false: each chosen test function says one thing that the right code does not do. Pure, on source bytes.

Change  one per function, the first of these that there is room for: a literal that a result is compared with, or that
        is the last argument of a call that stands alone (`assertEqual(f(), 3)`), is another; `==` is asked of another
        value; an assertion is turned round; a false one is put first (`blunt` ones at once).
Why     the changes read like tests, so that code that bends results can't tell them from the reference's.
Errors  none: a file that is no Python of this interpreter stays as it is.
"""

import ast
import random
from collections.abc import Collection, Iterator
from typing import NamedTuple

_FALSE = "assert 1 == 2"


class _Edit(NamedTuple):
    start: int
    end: int
    text: bytes


def falsified(source: bytes, functions: Collection[str], blunt: Collection[str], *, chance: random.Random) -> bytes:
    """The source with those functions made false."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return source
    file = _File(source)
    edits = [
        _blunt(file, node) if node.name in blunt else _edit(file, node, chance)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in functions
    ]
    for edit in sorted(edits, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


class _File:
    """Byte offsets of nodes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._mark = 3 if source.startswith(b"\xef\xbb\xbf") else 0

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def text(self, node: ast.expr) -> bytes:
        return self.source[self.start(node) : self.end(node)]

    def _offset(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column + (self._mark if line == 1 else 0)


def _edit(file: _File, function: ast.FunctionDef | ast.AsyncFunctionDef, chance: random.Random) -> _Edit:
    literals = [one for statement in ast.walk(function) for one in _literals(statement)]
    if literals:
        chosen = chance.choice(literals)
        return _Edit(file.start(chosen), file.end(chosen), _other(chosen.value, chance))
    asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    if not asserts:
        return _blunt(file, function)
    test = chance.choice(asserts).test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        side = test.left if _calls(test.comparators[0]) and not _calls(test.left) else test.comparators[0]
        return _Edit(file.start(side), file.end(side), b"((" + file.text(side) + b"), None)")
    return _Edit(file.start(test), file.end(test), b"not (" + file.text(test) + b")")


def _literals(statement: ast.AST) -> Iterator[ast.Constant]:
    """Literals that say what a result must be."""
    sides: list[ast.expr] = []
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        if len(statement.test.ops) == 1 and isinstance(statement.test.ops[0], ast.Eq):
            sides = [statement.test.left, statement.test.comparators[0]]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and len(statement.value.args) > 1:
        sides = statement.value.args[-1:]
    for side in sides:
        if not _calls(side):
            yield from (node for node in ast.walk(side) if isinstance(node, ast.Constant) and node.value is not ...)


def _calls(expression: ast.expr) -> bool:
    """It computes something; strings with expressions in them have no offsets of their own either."""
    return any(isinstance(node, ast.Call | ast.JoinedStr | ast.Subscript) for node in ast.walk(expression))


def _other(value: object, chance: random.Random) -> bytes:
    """A literal of the same kind with another value."""
    if isinstance(value, bool | None):
        return repr(not value).encode()
    if isinstance(value, int | float | complex):
        return repr(value + chance.randrange(1, 4)).encode()
    letter = chance.choice("aeionrst")
    return ascii(value + (letter if isinstance(value, str) else letter.encode())).encode()  # type: ignore[operator]


def _blunt(file: _File, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Edit:
    first = function.body[0]
    at = file.start(first)
    line = file.source.rfind(b"\n", 0, at) + 1
    indent = file.source[line:at]
    if indent.strip():
        return _Edit(at, at, _FALSE.encode() + b"; ")
    decorated = getattr(first, "decorator_list", [])
    if decorated:
        at = line = file.source.rfind(b"\n", 0, file.start(decorated[0])) + 1
        return _Edit(line, line, indent + _FALSE.encode() + b"\n")
    return _Edit(at, at, _FALSE.encode() + b"\n" + indent)
