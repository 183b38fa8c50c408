"""Strings that a template may paste, and nothing else: rendered so, it shows what it writes whatever they say.

Law     an `Opaque` holds no text. It is no `str`, so no code written in C finds one in it; every question to it (an
        attribute, a comparison, a length, an item, its text) raises `LookedError` and is noted, should that be caught.
        It is true, as each string is that isn't empty; its type is told by the tests of `_ANSWERS` alone.
Pasting `~`, `+`, output, blocks that are set and what macros return give another `Opaque`, so what is done to the whole
        is seen as well. Filters get none, not even inside of what they are given, but for those of `_CARRYING`.
Refused a date, chance, and escaping: their filters and functions raise too.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NoReturn, cast

import orjson
from jinja2.compiler import CodeGenerator, Frame
from jinja2.nodes import Concat, Expr
from jinja2.runtime import Context, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

Piece = str | int
"""Of a text: as it stands, or the number of the string that stands there."""

_ANSWERS = {"string": True, "defined": True} | dict.fromkeys(
    ["undefined", "none", "mapping", "boolean", "true", "false", "number", "integer", "float"], False
)
"""Tests that ask what kind of value it is: what they say of a string."""
_CARRYING = ["list", "first", "last", "length", "count", "items", "map", "select", "reject", "selectattr", "rejectattr"]
"""Filters that hand on what is in a list or object, and ask each thing by itself where they ask."""
_REFUSED = ["random", "safe", "e", "escape", "forceescape", "xmlattr", "urlize", "striptags"]
_ATOMS = (str, int, float, bool, type(None))
_NUMERIC = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift"]
_NUMERIC += ["and", "xor", "or"]
_QUESTIONS = ["getattribute", "str", "repr", "format", "bytes", "hash", "eq", "ne", "lt", "le", "gt", "ge", "len"]
_QUESTIONS += ["length_hint", "iter", "reversed", "contains", "getitem", "index", "int", "float", "complex", "round"]
_QUESTIONS += ["trunc", "floor", "ceil", "neg", "pos", "abs", "invert", *_NUMERIC, *(f"r{name}" for name in _NUMERIC)]


class LookedError(BaseException):
    """Not of `Exception`, which templates' engines catch."""


class Opaque:
    """Strings, none of them empty, and text pasted to them. `looked` gets an entry with each question."""

    __slots__ = ("looked", "pieces")

    def __init__(self, pieces: tuple[Piece, ...], looked: list[bool]) -> None:
        self.pieces = pieces
        self.looked = looked

    def __bool__(self) -> bool:
        return True


def _question(self: Opaque, *_: object, **__: object) -> NoReturn:
    _part(self, "looked").append(True)
    raise LookedError


_part: Callable[[Opaque, str], Any] = object.__getattribute__
for _name in _QUESTIONS:
    setattr(Opaque, f"__{_name}__", _question)


def pasted(values: Iterable[Any]) -> Any:
    """One after the other: a string where all are plain."""
    pieces: list[Piece] = []
    looked: list[bool] | None = None
    for value in values:
        if type(value) is Opaque:
            pieces += _part(value, "pieces")
            looked = _part(value, "looked")
        else:
            pieces.append(str(value))
    return "".join(cast("list[str]", pieces)) if looked is None else Opaque(tuple(pieces), looked)


def pieces_of(text: Any) -> tuple[Piece, ...]:
    """Of what was rendered; no two strings in a row."""
    found: list[Piece] = []
    for piece in _part(text, "pieces") if type(text) is Opaque else (text,):
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece != "":
            found.append(piece)
    return tuple(found)


def _refused(*_: object, **__: object) -> NoReturn:
    raise LookedError


def _written(value: Any) -> Any:
    return value if type(value) is Opaque else str(value)


class _Generator(CodeGenerator):
    """Where escaping may be on, the code is as it was: it asks for text."""

    def _output_child_pre(self, node: Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape or finalize.src is not None:
            super()._output_child_pre(node, frame, finalize)
        else:
            self.write("environment.written(")

    def visit_Concat(self, node: Concat, frame: Frame) -> None:  # noqa: N802
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super().visit_Concat(node, frame)
            return
        self.write("environment.pasted((")
        for each in node.nodes:
            self.visit(each, frame)
            self.write(", ")
        self.write("))")


class PastingEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, for templates that are given `Opaque`s. `guard` is to be called once its filters are there."""

    code_generator_class = _Generator
    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "**", "%"])
    concat = staticmethod(pasted)
    pasted = staticmethod(pasted)
    written = staticmethod(_written)

    def guard(self) -> None:
        for name, function in self.filters.items():
            if name not in _CARRYING:
                self.filters[name] = _refused if name in _REFUSED else _guarded_filter(function)
        self.filters |= {"default": _default, "d": _default, "string": _string}
        for name, test in self.tests.items():
            self.tests[name] = _guarded_test(test, _ANSWERS.get(name))
        self.tests["sameas"] = _same
        self.globals |= {"strftime_now": _refused, "lipsum": _refused}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        kinds = type(left), type(right)
        if Opaque not in kinds:
            return super().call_binop(context, operator, left, right)
        if operator != "+" or not all(kind in (str, Opaque) for kind in kinds):
            raise LookedError
        return pasted((left, right))

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(function) is Opaque:
            raise LookedError
        hands_on = isinstance(function, Macro) or function is Namespace or function is dict
        if not hands_on and any(type(value) is Opaque for value in (*args, *kwargs.values())):
            raise LookedError
        return super().call(context, function, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        return None if type(value) is Opaque else super().wrap_str_format(value)


def _guarded_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    skipped = int(hasattr(function, "jinja_pass_arg"))

    @wraps(function)
    def guarded(*args: Any, **named: Any) -> Any:
        if not all(_is_json(value) or _is_plain(value) for value in (*args[skipped:], *named.values())):
            raise LookedError
        return function(*args, **named)

    return guarded


def _is_json(value: Any) -> bool:
    """Soon told where it is, as tools are; no `Opaque` can be written."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def _is_plain(value: Any) -> bool:
    """No `Opaque` is in it; what can't be seen into may hold one."""
    kind = type(value)
    if kind is list or kind is tuple:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return kind in _ATOMS or (kind is not Opaque and isinstance(value, Undefined))


def _guarded_test(function: Any, answer: bool | None) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any) -> Any:
        if not any(type(value) is Opaque for value in args):
            return function(*args)
        if answer is None or len(args) != 1:
            raise LookedError
        return answer

    return guarded


def _default(value: Any, default_value: Any = "", boolean: bool = False) -> Any:
    if type(value) is Opaque:
        return value
    return default_value if isinstance(value, Undefined) or (boolean and not value) else value


def _string(value: Any) -> Any:
    return _written(value)


def _same(value: Any, other: Any) -> bool:
    if other is not None and other is not True and other is not False:
        raise LookedError
    return value is other
