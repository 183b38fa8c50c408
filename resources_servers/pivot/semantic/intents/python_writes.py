"""Short Python programs that read files, replace in their texts, write and remove them, as changes of files.

Source  what agents write: `s = open(p).read()`, `s = s.replace(a, b)`, `open(p, "w").write(s)`, the same with `Path`
        and `with`; `os.remove(p)`, `Path(p).unlink()`; `assert`, `print` and imports beside. None is run.
Law     statements in order; every path, old and new text is a literal, or a name for one. A text is written to the file
        that it was read from, once, and not read after. Of branches only what an assertion says: `if old not in s:`
        before an end, and at the program's end `if old in s:`, with nothing but words and ends besides. What is removed
        exists. A loop over literal texts is its body for each.
None    everything else: other loops, functions, other modules' calls, other modes, encodings other than UTF-8,
        assertions of more than that a file holds what is replaced.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from posixpath import normpath
from typing import NamedTuple

from paddock.edits import Delete, Write
from paddock.resources_servers.pivot.semantic.intents.text_functions import Append, ReplaceText
from paddock.shell import parse_python, take

_MODULES = frozenset({"re", "os", "sys", "io", "pathlib"})
_MAX_CHARS = 40_000
_MAX_REPLACEMENTS = 64


class FunctionOnFile(NamedTuple):
    """A change of one file's text."""

    path: str
    function: Append | ReplaceText


@dataclass(frozen=True, slots=True)
class _Path:
    path: str


@dataclass(frozen=True, slots=True)
class _FileText:
    """What a file held, after replacements."""

    path: str
    replacements: tuple[ReplaceText, ...] = ()


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """A file that is open."""

    path: str
    mode: str


@dataclass(frozen=True, slots=True)
class _Irrelevant:
    """A number or a truth that goes nowhere but into `assert` and `print`."""


_Value = str | _Path | _FileText | _OpenedFile | _Irrelevant


def python_changes(code: str) -> list[Write | Delete | FunctionOnFile] | None:
    """Return the changes that a program makes, with paths as written; None: it is not known to make only those."""
    tree = parse_python(code) if len(code) <= _MAX_CHARS else None
    if tree is None:
        return None
    program = _WritingProgram()
    try:
        program.block(tree.body, at_end=True)
    except (_UnreadProgramError, ValueError, RecursionError):
        return None
    made = {change.function for change in program.changes if isinstance(change, FunctionOnFile)}
    return program.changes if program.changes and not program.asserted and program.required <= made else None


class _UnreadProgramError(Exception):
    """Something in the program is not read here."""


class _WritingProgram:
    """The names and the changes so far."""

    def __init__(self) -> None:
        self.names: dict[str, _Value] = {}
        self.changes: list[Write | Delete | FunctionOnFile] = []
        self.opened: set[str] = set()
        """Files that have been opened for writing, or removed."""
        self.asserted: dict[_FileText, tuple[str, bool]] = {}
        """What a text is asserted to hold, and whether once; left out again where that is what is replaced in it."""
        self.required: set[ReplaceText] = set()
        """Replacements of what was asserted: whether the program goes on is known where they are made."""

    def block(self, statements: list[ast.stmt], *, at_end: bool = False) -> None:
        """Read statements in order. `at_end`: nothing that matters comes after them in the program."""
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                self.condition(statement, at_end=at_end and _only_says(statements[index + 1 :]))
            else:
                self.statement(statement)

    def condition(self, node: ast.If, *, at_end: bool) -> None:
        match node.test:
            case ast.Compare(left=left, ops=[ast.NotIn()], comparators=others) if _ends(node.body) and not node.orelse:
                self.assertion(ast.Compare(left, [ast.In()], others))
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr="exists" | "isfile"),
                args=[path],
                keywords=[],
            ) if self.is_builtin("os") and not node.orelse:
                before = len(self.changes)
                self.block(node.body)
                if self.changes[before:] != [Delete(self.path(path))]:
                    raise _UnreadProgramError
            case ast.Compare(ops=[ast.In()]) if at_end and (_only_says(node.orelse) or _ends(node.orelse)):
                self.assertion(node.test)
                self.block(node.body, at_end=True)
            case _:
                raise _UnreadProgramError

    def statement(self, node: ast.stmt) -> None:
        take(1)
        match node:
            case ast.Import(names=names) if all(alias.name in _MODULES and not alias.asname for alias in names):
                pass
            case ast.ImportFrom(module="pathlib", names=[ast.alias(name="Path", asname=None)]):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names[name] = self.value(value)
            case ast.Assert(test=test):
                self.assertion(test)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=args, keywords=[])):
                for argument in args:
                    self.check(argument)
            case ast.For() | ast.Expr(value=ast.ListComp()):
                self.loop(node)
            case ast.Expr(value=value):
                self.value(value)
            case ast.With(items=[ast.withitem(context_expr=value, optional_vars=ast.Name(id=name))], body=body):
                opened = self.value(value)
                if not isinstance(opened, _OpenedFile):
                    raise _UnreadProgramError
                self.names[name] = opened
                self.block(body)
                del self.names[name]
            case _:
                raise _UnreadProgramError

    def loop(self, node: ast.For | ast.Expr) -> None:
        """Read a loop over literal texts, or a list of what is done with each."""
        match node:
            case ast.For(target=ast.Name(id=name), iter=texts, body=body, orelse=[]):
                for text in self.texts(texts):
                    self.names[name] = text
                    self.block(body)
            case ast.Expr(
                value=ast.ListComp(
                    elt=value,
                    generators=[ast.comprehension(target=ast.Name(id=name), iter=texts, ifs=[], is_async=0)],
                )
            ) if name not in self.names:
                for text in self.texts(texts):
                    self.names[name] = text
                    self.value(value)
                self.names.pop(name, None)
            case _:
                raise _UnreadProgramError

    def assertion(self, node: ast.expr) -> None:
        """Read that a text stands in a file, or stands there once: of one that is replaced next this is known."""
        once = False
        match node:
            case ast.Compare(left=left, ops=[ast.In()], comparators=[text]):
                asserted = self.value(left)
            case ast.Compare(
                left=ast.Call(func=ast.Attribute(value=text, attr="count"), args=[counted], keywords=[]),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=1)],
            ):
                asserted = self.value(counted)
                once = True
            case _:
                raise _UnreadProgramError
        file = self.value(text)
        if not isinstance(asserted, str) or not isinstance(file, _FileText):
            raise _UnreadProgramError
        if self.asserted.setdefault(file, (asserted, once)) != (asserted, once):
            raise _UnreadProgramError

    def check(self, node: ast.expr) -> None:
        """Read what is only looked at: comparisons and tests of known values."""
        match node:
            case ast.Compare(left=left, comparators=others):
                for part in (left, *others):
                    self.check(part)
            case ast.BoolOp(values=values):
                for part in values:
                    self.check(part)
            case ast.UnaryOp(operand=operand):
                self.check(operand)
            case ast.JoinedStr(values=values):
                for part in values:
                    self.check(part.value if isinstance(part, ast.FormattedValue) else part)
            case ast.Constant():
                pass
            case _:
                self.value(node)

    def value(self, node: ast.expr) -> _Value:
        take(1)
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = self.value(left), self.value(right)
                if isinstance(first, str) and isinstance(second, str) and len(first) + len(second) <= _MAX_CHARS:
                    return first + second
            case ast.Call(func=ast.Name(id="open"), args=[path, *mode], keywords=keywords) if self.is_builtin("open"):
                return self.open(self.path(path), mode, keywords)
            case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]) if self.is_builtin("len"):
                self.check(argument)
                return _Irrelevant()
            case ast.Call(
                func=ast.Name(id="Path") | ast.Attribute(value=ast.Name(id="pathlib"), attr="Path"),
                args=[path],
                keywords=[],
            ):
                return _Path(self.path(path))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="os"), attr="remove" | "unlink"), args=[path], keywords=[]
            ) if self.is_builtin("os"):
                return self.remove(self.path(path))
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords):
                return self.method(self.value(owner), name, args, keywords)
        raise _UnreadProgramError

    def texts(self, node: ast.expr) -> list[str]:
        """Return the literal texts that a loop goes over."""
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                found = [self.value(element) for element in elements]
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split"), args=[], keywords=[]):
                found = list[_Value](text.split())
            case _:
                raise _UnreadProgramError
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) != len(found) or len(texts) > _MAX_REPLACEMENTS:
            raise _UnreadProgramError
        return texts

    def is_builtin(self, name: str) -> bool:
        return name not in self.names

    def path(self, node: ast.expr) -> str:
        value = self.value(node)
        path = value.path if isinstance(value, _Path) else value
        if not isinstance(path, str) or not path or "\0" in path:
            raise _UnreadProgramError
        return normpath(path)

    def open(self, path: str, mode: list[ast.expr], keywords: list[ast.keyword]) -> _OpenedFile:
        modes = [*mode, *(keyword.value for keyword in keywords if keyword.arg == "mode")]
        _only_utf8([keyword for keyword in keywords if keyword.arg != "mode"])
        given = self.value(modes[0]) if modes else "r"
        if len(modes) > 1 or given not in ("r", "w", "a", "rt", "wt"):
            raise _UnreadProgramError
        opened = _OpenedFile(path, str(given)[0])
        if path in self.opened:
            raise _UnreadProgramError
        if opened.mode == "w":
            self.changes.append(Write(path, ""))
        if opened.mode != "r":
            self.opened.add(path)
        return opened

    def method(self, owner: _Value, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> _Value:
        match owner, name, args:
            case _OpenedFile(mode="r"), "read", []:
                return self.text_of(owner.path)
            case _Path(), "read_text", []:
                _only_utf8(keywords)
                return self.text_of(owner.path)
            case _Path(), "unlink", [] if all(keyword.arg == "missing_ok" for keyword in keywords):
                return self.remove(owner.path)
            case _Path(), "open", _:
                return self.open(owner.path, args, keywords)
            case _OpenedFile(), "close", []:
                return _Irrelevant()
            case _OpenedFile(mode="w" | "a"), "write", [argument]:
                self.write(owner, self.value(argument))
                return _Irrelevant()
            case _Path(), "write_text", [argument]:
                _only_utf8(keywords)
                content = self.value(argument)
                self.write(self.open(owner.path, [ast.Constant("w")], []), content)
                return _Irrelevant()
            case ((str() | _FileText()), "count" | "find" | "index", [argument]) if not keywords:
                self.value(argument)
                return _Irrelevant()
            case ((str() | _FileText()), "replace", [_, _, *_]) if not keywords:
                return self.replaced(owner, args)
            case _:
                raise _UnreadProgramError

    def remove(self, path: str) -> _Irrelevant:
        if path in self.opened:
            raise _UnreadProgramError
        self.opened.add(path)
        self.changes.append(Delete(path))
        return _Irrelevant()

    def text_of(self, path: str) -> _FileText:
        if path in self.opened:
            raise _UnreadProgramError
        return _FileText(path)

    def replaced(self, owner: str | _FileText, args: list[ast.expr]) -> _Value:
        old, new = self.value(args[0]), self.value(args[1])
        count: object = -1
        match args[2:]:
            case []:
                pass
            case [ast.Constant(value=int(number))] if number > 0 and not isinstance(number, bool):
                count = number
            case _:
                raise _UnreadProgramError
        if not (isinstance(old, str) and isinstance(new, str) and isinstance(count, int) and old):
            raise _UnreadProgramError
        if isinstance(owner, str):
            if len(owner) * max(len(new), 1) > 10 * _MAX_CHARS:
                raise _UnreadProgramError
            return owner.replace(old, new, count)
        if len(owner.replacements) >= _MAX_REPLACEMENTS:
            raise _UnreadProgramError
        asserted, once = self.asserted.get(owner, (old, False))
        if asserted != old:
            raise _UnreadProgramError
        change = ReplaceText(old, new, count, once)
        if self.asserted.pop(owner, None) is not None:
            self.required.add(change)
        return replace(owner, replacements=(*owner.replacements, change))

    def write(self, file: _OpenedFile, content: _Value) -> None:
        if isinstance(content, str):
            last = self.changes[-1] if self.changes else None
            if last == Write(file.path, ""):
                self.changes[-1] = Write(file.path, content)
            else:
                self.changes.append(FunctionOnFile(file.path, Append(content)))
            return
        emptied = self.changes[-1:] == [Write(file.path, "")]
        if not isinstance(content, _FileText) or content.path != file.path or not emptied or not content.replacements:
            raise _UnreadProgramError
        self.changes.pop()
        self.changes.extend(FunctionOnFile(file.path, change) for change in content.replacements)


def _only_says(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements do nothing but print what calls nothing."""
    return all(
        isinstance(statement, ast.Pass)
        or (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and isinstance(statement.value.func, ast.Name)
            and statement.value.func.id == "print"
            and _calls(statement) == 1
        )
        for statement in statements
    )


def _ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements print at most, and end the program."""
    *before, last = statements or [ast.Pass()]
    if not _only_says(before) or _calls(last) > 1:
        return False
    match last:
        case ast.Raise(cause=None):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="exit"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exit"))):
            return True
        case _:
            return False


def _calls(node: ast.stmt) -> int:
    """Count what may run something: calls, and what can hide one."""
    hides = (ast.Call, ast.NamedExpr, ast.Await, ast.Lambda, ast.comprehension, ast.Subscript)
    return sum(isinstance(inner, hides) for inner in ast.walk(node))


_UTF8: Callable[[object], bool] = {"utf-8", "utf8", "UTF-8"}.__contains__


def _only_utf8(keywords: list[ast.keyword]) -> None:
    for keyword in keywords:
        value = keyword.value
        if keyword.arg != "encoding" or not isinstance(value, ast.Constant) or not _UTF8(value.value):
            raise _UnreadProgramError
