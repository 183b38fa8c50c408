"""Answers as models write them, by the format's name: the text of what was sampled, and what it means."""

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

WORDS = [
    "ls",
    "a b",
    "\n",
    "\n\n",
    "  ",
    "é漢🎈",
    '"',
    "\\",
    "\\d",
    "<b>",
    "</x>",
    "&&",
    "{",
    "}",
    "[",
    "]",
    ";",
    "'",
    "#",
    "True",
]
TYPES = ("string", "integer", "number", "boolean", "object", "array")
PARAMETERS = {f"a_{name}": {"type": name} for name in TYPES} | {"a_null": {"type": ["integer", "null"]}, "a_free": {}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": PARAMETERS}}},
    {"type": "function", "function": {"name": "no_args", "parameters": {"type": "object", "properties": {}}}},
]
Call = tuple[str, dict[str, Any]]


class ExampleAnswer(NamedTuple):
    """The text of an answer, and the message that it is."""

    text: str
    reasoning: str
    content: str
    calls: list[Call]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> str:
    """A value where strings have no quotes."""
    return value if isinstance(value, str) else _json(value)


def _hermes(calls: list[Call]) -> str:
    blocks = (
        f'<tool_call>\n{{"name": {_json(name)}, "arguments": {_json(values)}}}\n</tool_call>' for name, values in calls
    )
    return "\n" + "\n".join(blocks)


def _qwen3_coder(calls: list[Call]) -> str:
    text = ""
    for name, values in calls:
        lines = "".join(f"<parameter={key}>\n{_plain(value)}\n</parameter>\n" for key, value in values.items())
        text += f"\n<tool_call>\n<function={name}>\n{lines}</function>\n</tool_call>"
    return text


def _glm(calls: list[Call]) -> str:
    text = ""
    for name, values in calls:
        lines = "".join(
            f"<arg_key>{key}</arg_key>\n<arg_value>{_plain(value)}</arg_value>\n" for key, value in values.items()
        )
        text += f"\n<tool_call>{name}\n{lines}</tool_call>"
    return text


def _deepseek(template: str) -> Callable[[list[Call]], str]:
    def write(calls: list[Call]) -> str:
        blocks = [template.replace("NAME", name).replace("ARGUMENTS", _json(values)) for name, values in calls]
        begin, end = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
        return f"<｜tool▁calls▁begin｜>{''.join(begin + block + end for block in blocks)}<｜tool▁calls▁end｜>"

    return write


def _mistral(calls: list[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{_json(values)}" for name, values in calls)


def _mistral_list(calls: list[Call]) -> str:
    return "[TOOL_CALLS]" + _json([{"name": name, "arguments": values, "id": "a" * 9} for name, values in calls])


def _llama(calls: list[Call]) -> str:
    return "; ".join(f'{{"name": {_json(name)}, "parameters": {_json(values)}}}' for name, values in calls)


def _python(calls: list[Call]) -> str:
    written = (f"{name}({', '.join(f'{key}={value!r}' for key, value in values.items())})" for name, values in calls)
    return f"[{', '.join(written)}]"


WRITERS: Mapping[str, tuple[str, Callable[[list[Call]], str]]] = {
    "deepseek_v3": ("deepseek_v3", _deepseek("function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```")),
    "deepseek_v31": ("deepseek_v31", _deepseek("NAME<｜tool▁sep｜>ARGUMENTS")),
    "glm45": ("glm45", _glm),
    "hermes": ("hermes", _hermes),
    "llama3_json": ("llama3_json", _llama),
    "mistral": ("mistral", _mistral),
    "mistral list": ("mistral", _mistral_list),
    "pythonic": ("pythonic", _python),
    "qwen3_coder": ("qwen3_coder", _qwen3_coder),
}
"""Parser and writer of each way of writing calls."""
CALLS_ALONE = ("llama3_json", "pythonic")
"""Ways in which an answer is text or calls."""
MARKS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
)


def example_answer(random: Random, way: str, *, reasoning: bool) -> ExampleAnswer:
    """A well-formed answer; with reasoning, it begins within."""
    thought = f"so {_text(random)}." if reasoning else ""
    calls = [_call(random) for _ in range(random.randint(0, 2))]
    content = "" if calls and (way in CALLS_ALONE or random.random() < 0.5) else f"I {_text(random)}."
    text = (f"{thought}</think>" if reasoning else "") + content + (WRITERS[way][1](calls) if calls else "")
    return ExampleAnswer(text, thought, content, calls)


def _text(random: Random) -> str:
    return "".join(random.choices(WORDS, k=random.randint(0, 5)))


def _call(random: Random) -> Call:
    if random.random() < 0.2:
        return "no_args", {}
    values: dict[str, Any] = {
        "a_string": f"x{_text(random)}y",
        "a_integer": random.randint(-9, 9),
        "a_number": random.choice([0.5, -2, 1e-7]),
        "a_boolean": random.choice([True, False]),
        "a_object": {"k": _text(random), "n": [None, {"m": 1}]},
        "a_array": [1, _text(random), True],
        "a_null": random.choice([None, 3]),
        "a_free": f"f{_text(random)}",
    }
    return "bash", {key: values[key] for key in random.sample(sorted(values), random.randint(1, 4))}


def message(parsed: dict[str, Any]) -> tuple[str, str, list[Call]]:
    """Reasoning, content and calls of a chat message."""
    calls = [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in parsed.get("tool_calls", ())
    ]
    return parsed.get("reasoning_content", ""), parsed.get("content", ""), calls
