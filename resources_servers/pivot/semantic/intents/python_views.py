"""Python programs that print a file, or a range of its lines, and do nothing else.

Source  the usual one-liners: `print(open(P).read())`, `Path(P).read_text()`, `readlines()[A:B]`, joined, or printed one
        by one with or without numbers.
Shapes  `python_lines` reads a program's text; names are values, nothing is run.
Errors  None: something else is done.
"""

import ast
import re
from typing import NamedTuple

from paddock.resources_servers.pivot.semantic.intents.line_ranges import WHOLE, LineRange
from paddock.resources_servers.pivot.semantic.intents.view_programs import PrintedLines
from paddock.shell import parse_python

_MAX_CHARS = 2000
_MODULES = frozenset({"sys", "pathlib", "io", "itertools", "os"})
_BLANKS = ("", "\n")
_USED_NAMES = frozenset({"print", "open", "Path", "list", "enumerate", "sys", "pathlib"})


class _OtherProgramError(Exception):
    """The program does something else."""


class _FileValue(NamedTuple):
    """What an expression stands for: a path, an open file, its text, its lines, or one of the lines."""

    form: str
    path: str
    lines: LineRange = WHOLE


def python_lines(source: str) -> PrintedLines | None:
    tree = parse_python(source) if len(source) <= _MAX_CHARS else None
    if tree is None:
        return None
    try:
        found = _Program().run(tree.body)
    except (_OtherProgramError, ValueError, RecursionError):
        return None
    if len(found) != 1:
        return None
    return PrintedLines((found[0].lines,), (found[0].path,), "other")


class _Program:
    def __init__(self) -> None:
        self.names: dict[str, _FileValue] = {}

    def run(self, body: list[ast.stmt]) -> list[_FileValue]:
        return [value for statement in body for value in self.statement(statement)]

    def statement(self, statement: ast.stmt) -> list[_FileValue]:
        """Return what a statement prints."""
        match statement:
            case ast.Import(names=names) if all(name.name in _MODULES and not name.asname for name in names):
                return []
            case ast.ImportFrom(module="pathlib" | "itertools") if all(not name.asname for name in statement.names):
                return []
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in _USED_NAMES:
                self.names[name] = self.value(statement.value)
                return []
            case ast.With(items=[ast.withitem(context_expr=opened, optional_vars=ast.Name(id=name))]):
                self.names[name] = self.value(opened)
                return self.run(statement.body)
            case ast.For(orelse=[], body=[ast.Expr(value=ast.Call() as call)]):
                return [self.loop(statement.target, statement.iter, call)]
            case ast.Expr(value=ast.Call() as call):
                return [self.printed(call)]
            case _:
                raise _OtherProgramError

    def printed(self, call: ast.Call) -> _FileValue:
        match call:
            case ast.Call(func=ast.Name(id="print"), args=[ast.Starred(value=shown)], keywords=keywords):
                return self.of_form(shown, "lines", "file") if _only_blanks(keywords) else _refuse()
            case ast.Call(func=ast.Name(id="print"), args=[shown], keywords=keywords) if _only_blanks(keywords):
                return self.of_form(shown, "text", "line")
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="stdout"), attr="write"), args=[shown]):
                return self.of_form(shown, "text", "line")
            case _:
                return _refuse()

    def loop(self, target: ast.expr, source: ast.expr, call: ast.Call) -> _FileValue:
        """Read a loop over lines, or numbered lines, that prints each with nothing but its number."""
        names: list[str]
        match target, source:
            case ast.Name(id=name), _:
                names = [name]
            case ast.Tuple(elts=[ast.Name(id=number), ast.Name(id=name)]), ast.Call(func=ast.Name(id="enumerate")):
                names, source = [number, name], source.args[0] if source.args else target
            case _:
                raise _OtherProgramError
        lines = self.of_form(source, "lines", "file")
        writes = isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "sys.stdout.write"
        if not writes and not (isinstance(call.func, ast.Name) and call.func.id == "print"):
            raise _OtherProgramError
        shown = [node.id for arg in call.args for node in ast.walk(arg) if isinstance(node, ast.Name)]
        if not _only_blanks(call.keywords) or names[-1] not in shown or not set(shown) <= set(names):
            raise _OtherProgramError
        if not all(_shows_all(arg) for arg in call.args):
            raise _OtherProgramError
        return lines

    def of_form(self, node: ast.expr, *forms: str) -> _FileValue:
        value = self.value(node)
        if value.form not in forms:
            raise _OtherProgramError
        return self.read(value)

    def read(self, value: _FileValue) -> _FileValue:
        """Return a value; an open file is at its end when it has been read, so its name is forgotten."""
        if value.form == "file":
            self.names = {name: other for name, other in self.names.items() if other.form != "file"}
        return value

    def value(self, node: ast.expr) -> _FileValue:
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Constant(value=str(path)):
                return _FileValue("path", path)
            case ast.Call(func=ast.Name(id="open"), args=[path, *mode], keywords=keywords) if _reads(mode, keywords):
                return self.of_form(path, "path")._replace(form="file")
            case ast.Call(func=ast.Name(id="Path"), args=[path], keywords=[]):
                return self.of_form(path, "path")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pathlib"), attr="Path"), args=[path], keywords=[]):
                return self.of_form(path, "path")
            case ast.Call(func=ast.Name(id="list"), args=[source], keywords=[]):
                return self.of_form(source, "file", "lines")._replace(form="lines")
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=blank), attr="join"), args=[source]):
                return self.of_form(source, "lines", "file")._replace(form="text") if blank in _BLANKS else _refuse()
            case ast.Call(func=ast.Attribute(value=owner, attr=method), args=args, keywords=keywords):
                return self.method(self.read(self.value(owner)), method, args, keywords)
            case ast.Subscript(value=owner, slice=index):
                return _sliced(self.of_form(owner, "lines"), index)
            case _:
                return _refuse()

    def method(self, owner: _FileValue, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> _FileValue:
        match owner.form, name, args:
            case "path", "read_text", []:
                return owner._replace(form="text") if _reads([], keywords) else _refuse()
            case "path", "open", mode if _reads(mode, keywords):
                return owner._replace(form="file")
            case "file", "read", []:
                return owner._replace(form="text")
            case "file", "readlines", []:
                return owner._replace(form="lines")
            case "text", "splitlines", _:
                return owner._replace(form="lines")
            case "text", "split", [ast.Constant(value="\n")]:
                return owner._replace(form="lines")
            case _:
                return _refuse()


def _refuse() -> _FileValue:
    raise _OtherProgramError


def _reads(mode: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    """Say whether the arguments behind a path only say how its text is decoded."""
    modes = all(isinstance(arg, ast.Constant) and arg.value in ("r", "rt") for arg in mode)
    return modes and all(keyword.arg in ("encoding", "errors") for keyword in keywords)


def _only_blanks(keywords: list[ast.keyword]) -> bool:
    return all(
        keyword.arg in ("end", "sep") and isinstance(keyword.value, ast.Constant) and keyword.value.value in _BLANKS
        for keyword in keywords
    )


_WIDTH = re.compile(r"[<>]?[0-9]{1,2}d?")


def _shows_all(node: ast.expr) -> bool:
    """Say whether an expression shows a name whole: alone, without an end of line, counted on, or in an f-string."""
    match node:
        case ast.Name() | ast.Constant(value=str()):
            return True
        case ast.BinOp(left=ast.Name(), op=ast.Add(), right=ast.Constant(value=int())):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="rstrip"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="rstrip" | "strip"), args=[stripped], keywords=[]):
            return isinstance(stripped, ast.Constant) and stripped.value == "\n"
        case ast.JoinedStr(values=values):
            return all(map(_shows_all, values))
        case ast.FormattedValue(value=value, format_spec=None):
            return _shows_all(value)
        case ast.FormattedValue(value=value, format_spec=ast.JoinedStr(values=[ast.Constant(value=str(width))])):
            return _shows_all(value) and _WIDTH.fullmatch(width) is not None
        case _:
            return False


def _sliced(lines: _FileValue, index: ast.expr) -> _FileValue:
    form = "lines"
    match index:
        case ast.Slice(step=None):
            first, last = _number(index.lower), _number(index.upper)
            if isinstance(index.lower, ast.UnaryOp) and last is None and first is not None:
                cut = LineRange(1, None, first)
            elif isinstance(index.lower, ast.UnaryOp) or isinstance(index.upper, ast.UnaryOp):
                raise _OtherProgramError
            else:
                cut = LineRange((first or 0) + 1, last)
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and number < 10**9:
            form, cut = "line", LineRange(number + 1, number + 1)
        case _:
            return _refuse()
    left = lines.lines.cut(cut)
    return lines._replace(form=form, lines=left) if left is not None else _refuse()


def _number(node: ast.expr | None) -> int | None:
    """Return the count that a bound of a slice has, without its sign; None: there is no bound."""
    match node:
        case None:
            return None
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and number < 10**9:
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))) if 0 < number < 10**9:
            return number
        case _:
            raise _OtherProgramError
