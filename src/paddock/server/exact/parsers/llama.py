"""Answers that are calls from their first character: those of Llama 3 in JSON, and lists of calls in Python.

Form    `llama3_json`: objects with `name` and `parameters` (or `arguments`), semicolons between them, maybe after
        `<|python_tag|>`. `pythonic`: `[name(key=value, ...), ...]` with literal values.
"""

import ast
import json
import re
import warnings
from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call
from paddock.types import JsonObject

TAG = "<|python_tag|>"
_SEPARATOR = re.compile(r"\s*;\s*")


def _read_json(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    decoder = json.JSONDecoder()
    rest = block.removeprefix(TAG).strip()
    calls: list[AnswerCall] = []
    position = 0
    while True:
        try:
            call, position = decoder.raw_decode(rest, position)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(call, dict):
            raise ValueError("no object")
        calls.append(make_call(call.get("name"), call.get("parameters", call.get("arguments"))))
        if position == len(rest):
            return calls
        separator = _SEPARATOR.match(rest, position)
        if separator is None:
            raise ValueError("no semicolon between calls")
        position = separator.end()


def _read_python(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that are none: `"\d"` is a value like others
            body = ast.parse(block.strip(), mode="eval").body
        return [_python_call(call) for call in _calls(body)]
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError("no list of calls") from error


def _calls(body: ast.expr) -> list[ast.Call]:
    calls = [call for call in body.elts if isinstance(call, ast.Call)] if isinstance(body, ast.List) else []
    if not isinstance(body, ast.List) or not calls or len(calls) < len(body.elts):
        raise ValueError("no list of calls")
    return calls


def _python_call(call: ast.Call) -> AnswerCall:
    if call.args or not isinstance(call.func, ast.Name | ast.Attribute):
        raise ValueError("needs a name and keywords")
    arguments = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    if None in arguments:
        raise ValueError("needs keywords")
    return make_call(ast.unparse(call.func), arguments)


LLAMA3_JSON = CallFormat({"{": None, TAG: None}, _read_json, at_start=True)
PYTHONIC = CallFormat({"[": None}, _read_python, at_start=True)
