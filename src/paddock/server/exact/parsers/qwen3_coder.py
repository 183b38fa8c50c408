"""Calls as Qwen3-Coder and Qwen3.5 write them: a tag for the function, one for each parameter, values as plain text.

Form    `<tool_call>`, `<function=NAME>`, `<parameter=KEY>` VALUE `</parameter>` ..., `</function>`, `</tool_call>`. The
        template writes a value on lines of its own; its text is what stands between the two newlines. A function
        without `<tool_call>` around it, which these models sample too, is a call as well.
"""

import re
from collections.abc import Sequence

from paddock.server.exact.parsers.calls import AnswerCall, CallFormat
from paddock.server.exact.parsers.values import make_call, matches, parameter_types, typed_value
from paddock.types import JsonObject

START, END = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>(.*?)</function>\s*(?=<function=|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>\n?(.*?)\n?</parameter>\s*(?=<parameter=|\Z)", re.DOTALL)


def _read(block: str, tools: Sequence[JsonObject]) -> list[AnswerCall]:
    calls = []
    for function in matches(_FUNCTION, block.removeprefix(START).removesuffix(END)):
        name, body = function.groups()
        types = parameter_types(tools, name)
        parameters = matches(_PARAMETER, body) if body.strip() else []
        values = {
            key: typed_value(value, types.get(key, frozenset())) for key, value in map(re.Match.groups, parameters)
        }
        calls.append(make_call(name, values))
    return calls


QWEN3_CODER = CallFormat({START: END, FUNCTION: FUNCTION_END}, _read)
