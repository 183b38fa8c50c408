"""Tests made false: each chosen test function says one thing that the right code does not do. Pure, on source bytes.

Change  one per function, the first of these that there is room for, others where that one turns out to be harmless:
        a literal that a result is compared with, or that is the last argument of a call that stands alone
        (`assertEqual(f(), 3)`), is another of the file, or another in its own form (`literals`); a comparison, a
        method's name or an exception's is the contrary or another one; a claim of its result is added to a test that
        makes none.
Where   on lines that nobody has seen who knows `seen`: what stands where it stood before can be compared with it.
Why     the changes read like tests, so that code that bends results can't tell them from the reference's.
Errors  none: a file that is no Python of this interpreter has no changes.
"""

import ast
import builtins
import random
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from paddock.resources_servers.swe.grading.literals import changed_literal, similar_literal

_OPERATORS = {"is not": "is", "not in": "in", "is": "is not", "in": "not in", "!=": "==", "<=": ">", ">=": "<"}
_OPERATORS |= {"<": ">=", ">": "<="}
_OPERATOR = re.compile(rb"\s*(is\s+not|not\s+in|is|in|!=|<=|>=|<|>)\s*")
_METHODS = {"assertTrue": "assertFalse", "assertIn": "assertNotIn", "assertIs": "assertIsNot"}
_METHODS |= {"assertIsNone": "assertIsNotNone", "assertEqual": "assertNotEqual", "assertGreater": "assertLessEqual"}
_METHODS |= {"assertLess": "assertGreaterEqual", "assertIsInstance": "assertNotIsInstance"}
_METHODS |= {contrary: name for name, contrary in _METHODS.items()}
_RAISES = ("raises", "assertRaises", "assertRaisesRegex", "assertRaisesMessage", "warns", "assertWarns")
_EXCEPTIONS = ("ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "RuntimeError", "OSError")


class ByteEdit(NamedTuple):
    """New text for a range of a file's bytes."""

    start: int
    end: int
    text: bytes


class Falsification(NamedTuple):
    """The edits that make one function false."""

    function: str
    line: int
    """Of its definition: a name may stand for several."""
    edits: tuple[ByteEdit, ...]


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def falsifications(
    source: bytes, functions: Collection[str], seen: Collection[bytes], *, chance: random.Random
) -> list[Falsification]:
    """Find the falsifications of some functions, for each in the order in which they are to be tried.

    `seen` has the lines, without the space around them, that are not to be changed.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    file = _SourceFile(source, tree, frozenset(seen))
    result: list[Falsification] = []
    for node in ast.walk(tree):
        if isinstance(node, _Function) and node.name in functions:
            result += [Falsification(node.name, node.lineno, edits) for edits in _possible(file, node, chance)]
    return result


def apply_edits(source: bytes, edits: Iterable[ByteEdit]) -> bytes:
    """Apply edits that do not overlap."""
    for edit in sorted(edits, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source


class _SourceFile:
    """Byte offsets of nodes."""

    def __init__(self, source: bytes, tree: ast.Module, seen: frozenset[bytes]) -> None:
        self.source = source
        self._seen = seen
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._mark = 3 if source.startswith(b"\xef\xbb\xbf") else 0
        constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and hasattr(node, "lineno")]
        self.literals = sorted({self.text(constant) for constant in constants})
        wanted = [literal for node in ast.walk(tree) for literal in _literals(node)]
        self.wanted = sorted({self.text(literal_node) for literal_node in wanted})

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def text(self, node: ast.expr) -> bytes:
        return self.source[self.start(node) : self.end(node)]

    def indent(self, node: ast.stmt) -> bytes | None:
        """Return what stands before a statement on its line; None: more than space."""
        before = self.source[self._lines[node.lineno - 1] : self.start(node)]
        return None if before.strip() else before

    def is_new(self, edit: ByteEdit) -> bool:
        """Say whether nobody has seen any of the lines that an edit changes."""
        first = self.source.rfind(b"\n", 0, edit.start) + 1
        last = self.source.find(b"\n", edit.end)
        lines = self.source[first : None if last < 0 else last].splitlines()
        return not any(line.strip() in self._seen for line in lines if line.strip())

    def has_new(self, function: _Function) -> bool:
        """Say whether some line of the function is one that nobody has seen."""
        lines = self.source[self.start(function) : self.end(function)].splitlines()
        return any(line.strip() and line.strip() not in self._seen for line in lines)

    def _offset(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column + (self._mark if line == 1 else 0)


def _possible(file: _SourceFile, function: _Function, chance: random.Random) -> Iterator[tuple[ByteEdit, ...]]:
    for kind in (_of_literals, _of_comparisons, _of_names):
        edits = [edit for edit in kind(file, function, chance) if file.is_new(edit)]
        chance.shuffle(edits)
        # Among words that are in no dictionary a changed one shows; a changed number does not.
        edits.sort(key=lambda edit: kind is _of_literals and edit.text[-1:] in (b'"', b"'"))
        yield from ((edit,) for edit in edits)
    if file.has_new(function):
        yield from _claims(file, function, chance)


def _of_literals(file: _SourceFile, function: _Function, chance: random.Random) -> Iterator[ByteEdit]:
    for literal in [node for statement in ast.walk(function) for node in _literals(statement)]:
        text = file.text(literal)
        new = similar_literal(text, file.literals, chance) or changed_literal(text, chance)
        if new is not None:
            yield ByteEdit(file.start(literal), file.end(literal), new)


def _of_comparisons(file: _SourceFile, function: _Function, chance: random.Random) -> Iterator[ByteEdit]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Assert):
            continue
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            side = test.left if _calls(test.comparators[0]) and not _calls(test.left) else test.comparators[0]
            yield ByteEdit(file.start(side), file.end(side), _value(file, chance))
        elif (contrary := _contrary(file, test)) is not None:
            yield contrary


def _of_names(file: _SourceFile, function: _Function, chance: random.Random) -> Iterator[ByteEdit]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        called = _name(node)
        if called in _METHODS and isinstance(node.func, ast.Attribute):
            end = file.end(node.func)
            yield ByteEdit(end - len(called), end, _METHODS[called].encode())
        if called in _RAISES and node.args and isinstance(node.args[0], ast.Name):
            name = node.args[0].id
            # None is no kind of `Exception`.
            if others := [exception for exception in _EXCEPTIONS if not _related(name, exception)]:
                yield ByteEdit(file.start(node.args[0]), file.end(node.args[0]), chance.choice(others).encode())


def _claims(file: _SourceFile, function: _Function, chance: random.Random) -> Iterator[tuple[ByteEdit, ...]]:
    """Claim at the end of a function that a name has a value which it has not; or so the result of a call."""
    last, value = function.body[-1], _value(file, chance)
    indent = file.indent(last)
    # What follows these is not run.
    ends = isinstance(last, ast.Return | ast.Raise)
    names = [
        node.targets[0].id
        for node in function.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ]
    if names and indent is not None and not ends:
        claim = b"assert " + chance.choice(names).encode() + b" == " + value
        yield (ByteEdit(file.end(last), file.end(last), b"\n" + indent + claim),)
    for node in function.body:
        call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if call is not None and node.lineno == node.end_lineno and not _name(call).startswith("assert"):
            yield (
                ByteEdit(file.start(node), file.start(node), b"assert "),
                ByteEdit(file.end(node), file.end(node), b" == " + value),
            )


def _name(call: ast.Call) -> str:
    """Return the name that is called, without what it is an attribute of."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _related(name: str, other_name: str) -> bool:
    first, second = getattr(builtins, name, None), getattr(builtins, other_name)
    return isinstance(first, type) and (issubclass(first, second) or issubclass(second, first))


def _value(file: _SourceFile, chance: random.Random) -> bytes:
    """Make a value like those that results in the file are compared with; a number where there are none."""
    made = changed_literal(chance.choice(file.wanted), chance) if file.wanted else None
    return made or str(chance.randrange(11, 98)).encode()


def _contrary(file: _SourceFile, test: ast.expr) -> ByteEdit | None:
    """Negate one comparison without parentheses around its sides, or a plain truth; None: it can't."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        start, end = file.end(test.left), file.start(test.comparators[0])
        operator_match = _OPERATOR.fullmatch(file.source[start:end])
        if operator_match is None:
            return None
        operator = _OPERATORS[" ".join(operator_match[1].decode().split())]
        return ByteEdit(start + operator_match.start(1), start + operator_match.end(1), operator.encode())
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next((edit for operand in test.values if (edit := _contrary(file, operand)) is not None), None)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ByteEdit(file.start(test), file.start(test.operand), b"")
    if isinstance(test, ast.Name | ast.Attribute | ast.Call) and not file.text(test).startswith(b"("):
        return ByteEdit(file.start(test), file.start(test), b"not ")
    return None


def _literals(statement: ast.AST) -> Iterator[ast.Constant]:
    """Yield the literals that say what a result must be."""
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
    """Say whether an expression computes something, or is a string with expressions, whose parts have no offsets."""
    return any(isinstance(node, ast.Call | ast.JoinedStr | ast.Subscript) for node in ast.walk(expression))
