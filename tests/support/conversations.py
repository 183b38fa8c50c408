"""Random conversations between a model, its tools and those who ask it.

Law     of a seed the same ones. Texts hold several scripts, white space at their ends, marks of chat templates, or
        nothing; answers hold no mark that ends them.
Shapes  Chat Completions messages; each step is an answer and what comes before the next.
"""

import json
from random import Random
from typing import NamedTuple

from paddock.types import JsonObject

_WORDS = [
    "look",
    "  ",
    "\n",
    "\n\n",
    "été",
    "日本語",
    "🦊👩‍🚀",
    "\u0301",
    "{",
    '"',
    "\\",
    "</x>",
    "a\r\n",
    "def f():\n    ",
    "\t",
    "0",
    "'",
]
_MARKS = ["<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_response>", "[INST]", "<s>"]
_STOPS = ["<|im_end|>", "</s>", "<|endoftext|>", "<|eot_id|>"]
TOOLS: list[JsonObject] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} — über <files>",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name in ("look", "write_file")
]


class AnswerStep(NamedTuple):
    """One answer."""

    answer: JsonObject
    cut: bool
    """The answer came to its end before the model ended it."""
    follows: list[JsonObject]
    """What is said before the next answer; may be nothing."""


class RandomConversation(NamedTuple):
    start: list[JsonObject]
    tools: list[JsonObject] | None
    steps: list[AnswerStep]

    @property
    def messages(self) -> list[JsonObject]:
        return [*self.start, *(message for step in self.steps for message in (step.answer, *step.follows))]


def conversation(
    random: Random, *, strict: bool = False, one_call: bool = False, reasoning: bool = True
) -> RandomConversation:
    """`strict`: user, calls, results, answer, in turn; `one_call`: at once; `reasoning`: some answers have it."""
    start = [{"role": "system", "content": _text(random)}] if random.random() < 0.5 else []
    start.append({"role": "user", "content": _text(random)})
    tools = TOOLS if random.random() < 0.7 else None
    steps = [
        _step(random, tools=tools is not None, strict=strict, one_call=one_call, reasoning=reasoning)
        for _ in range(random.randint(1, 5))
    ]
    return RandomConversation(start, tools, steps)


def _step(random: Random, *, tools: bool, strict: bool, one_call: bool, reasoning: bool) -> AnswerStep:
    answer: JsonObject = {"role": "assistant", "content": _text(random, stops=False)}
    if reasoning and random.random() < 0.5:
        answer["reasoning"] = _text(random, stops=False).strip() or "hm"
        answer["content"] = answer["content"].lstrip("\n")
    if tools and random.random() < 0.6:
        count = 1 if one_call else random.randint(1, 3)
        answer["tool_calls"] = [_call(random) for _ in range(count)]
        follows = [
            {"role": "tool", "tool_call_id": call["id"], "content": _text(random)} for call in answer["tool_calls"]
        ]
        if not strict and random.random() < 0.3:
            follows.append({"role": random.choice(["user", "system"]), "content": _text(random)})
        return AnswerStep(answer, cut=False, follows=follows)
    cut = "reasoning" not in answer and random.random() < 0.3
    follows = [{"role": "user", "content": _text(random)}]
    if not strict and random.random() < 0.3:
        follows = random.choice(
            [
                [],
                [{"role": "system", "content": _text(random)}, *follows],
                [*follows, {"role": "assistant", "content": _text(random, stops=False)}, *follows],
            ]
        )
    return AnswerStep(answer, cut, follows)


def _call(random: Random) -> JsonObject:
    arguments = json.dumps({"path": _text(random, stops=False), "alpha": random.random()}, ensure_ascii=False)
    name = random.choice(["look", "write_file"])
    call_id = "".join(random.choices("abcdefghijkXYZ0123456789", k=9))
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _text(random: Random, *, stops: bool = True) -> str:
    words = _WORDS + _MARKS + (_STOPS if stops else [])
    return "".join(random.choices(words, k=random.choice([0, 1, 2, 5, 12])))
