"""Calls as GLM-4.5 and later write them: a name, then keys and values in tags, strings without quotes.

Form    `<tool_call>NAME`, `<arg_key>KEY</arg_key>`, `<arg_value>VALUE</arg_value>` ..., `</tool_call>`; with newlines
        between them or without. A block without its end may lack arguments and is no call.
"""

import re
from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call, matches, parameter_types, typed_value
from paddock.types import JsonObject

START, END = "<tool_call>", "</tool_call>"
_CALL = re.compile(rf"{START}\s*([^<>\s]+)\s*(?:(<arg_key>.*))?{END}", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*(?=<arg_key>|\Z)", re.DOTALL)


def _read(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    call = _CALL.fullmatch(block)
    if call is None:
        raise ValueError("no call")
    name, body = call.groups()
    types = parameter_types(tools, name)
    arguments = matches(_ARGUMENT, body) if body else []
    return [
        make_call(
            name,
            {key: typed_value(value, types.get(key, frozenset())) for key, value in map(re.Match.groups, arguments)},
        )
    ]


GLM45 = CallFormat({START: END}, _read)
