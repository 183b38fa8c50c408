"""Tests made false: each chosen test function says one thing that the right code does not do. Pure, on source bytes.

Change  one per function, the first of these that there is room for: a literal that a result is compared with, or that
        is the last argument of a call that stands alone (`assertEqual(f(), 3)`), is another in its own form
        (`literals`); `==` is asked of another value; a comparison is the contrary one; an assertion is turned round; a
        false one is put first (`blunt` ones at once).
Why     the changes read like tests, so that code that bends results can't tell them from the reference's.
Errors  none: a file that is no Python of this interpreter stays as it is.
"""

import ast
import random
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from paddock.resources_servers.swe.grading.literals import other

_OPERATORS = {"is not": "is", "not in": "in", "is": "is not", "in": "not in", "!=": "==", "<=": ">", ">=": "<"}
_OPERATORS |= {"<": ">=", ">": "<="}
_OPERATOR = re.compile(rb"\s*(is\s+not|not\s+in|is|in|!=|<=|>=|<|>)\s*")
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
    file = _File(source, tree)
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

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
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
    chance.shuffle(literals)
    for literal in literals:
        new = other(file.text(literal), chance)
        if new is not None:
            return _Edit(file.start(literal), file.end(literal), new)
    asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    if not asserts:
        return _blunt(file, function)
    test = chance.choice(asserts).test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        side = test.left if _calls(test.comparators[0]) and not _calls(test.left) else test.comparators[0]
        return _Edit(file.start(side), file.end(side), _value(file, chance))
    return _contrary(file, test) or _Edit(file.start(test), file.end(test), b"not (" + file.text(test) + b")")


def _value(file: _File, chance: random.Random) -> bytes:
    """Like one that a result of the file is compared with; a number where there is none."""
    known = sorted({file.text(one) for node in ast.walk(file.tree) for one in _literals(node)})
    made = other(chance.choice(known), chance) if known else None
    return made or str(chance.randrange(11, 98)).encode()


def _contrary(file: _File, test: ast.expr) -> _Edit | None:
    """Of one comparison without parentheses around its sides, or of what is plainly true."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        start, end = file.end(test.left), file.start(test.comparators[0])
        found = _OPERATOR.fullmatch(file.source[start:end])
        if found is None:
            return None
        operator = _OPERATORS[" ".join(found[1].decode().split())]
        return _Edit(start + found.start(1), start + found.end(1), operator.encode())
    if isinstance(test, ast.Name | ast.Attribute | ast.Call) and not file.text(test).startswith(b"("):
        return _Edit(file.start(test), file.start(test), b"not ")
    return None


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
