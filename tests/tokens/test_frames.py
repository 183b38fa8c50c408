"""Frames: what they give is what the template would have written, and who looks at what is said gets none."""

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sampling import few
from tests.tokens.framed import ending, endings, frames, written

import paddock
from paddock.testing.templates import MADE
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter
from paddock.tokens.endings import Endings
from paddock.tokens.frames import Frame, Frames
from paddock.types import JsonObject

TEMPLATES = {name: (made.source, made.marks) for name, made in MADE.items()} | {
    file.stem: (file.read_text("utf-8"), "chatml")
    for file in (Path(paddock.__file__).parent / "models_servers/vllm/templates").glob("*.jinja")
}
QWEN3 = """\
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if ns.multi_step_tool and message.role == "user" and message.content is string and
 not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}
{%- endif %}
{%- endfor %}
{%- for message in messages %}
{%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
{%- if message.role == "user" or (message.role == "system" and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- elif message.role == "assistant" %}
{{- '<|im_start|>' + message.role + '\\n' + content.lstrip('\\n') }}
{%- for tool_call in message.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + tool_call.function.name + '", "arguments": ' }}
{{- tool_call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == "tool" %}
{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
{%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""What the published template does to a conversation of tools."""
TEMPLATES["qwen3"] = QWEN3, "chatml"

_WORDS = [
    "",
    " ",
    "\n",
    "a",
    "look",
    "été",
    "日本",
    "🦊",
    "<tool_response>",
    "</tool_response>",
    "</think>",
    "{",
    "}}",
    "%s",
]
_WORDS += [
    "<|im_end|>",
    "<|im_end|",
    ">",
    "</s>",
    "<|endoftext|>",
    "<|im_start|>user\n",
    "s0123456789abcdef",
    "\\",
    '"',
]
TEXTS = st.lists(st.sampled_from(_WORDS), max_size=4).map("".join) | st.text(max_size=5)
CONTENTS = (
    TEXTS | st.none() | st.lists(TEXTS, max_size=2).map(lambda texts: [{"type": "text", "text": t} for t in texts])
)
IDS = st.sampled_from(["a", "call_1", "abcdefghi", "", "<|im_end|>", "tool"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from([0.0, 1.0, -0.0, math.nan, "", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def messages(draw: st.DrawFn) -> list[JsonObject]:
    results: list[JsonObject] = [
        {"role": "tool", "tool_call_id": draw(IDS), "content": draw(CONTENTS)} for _ in range(draw(st.integers(0, 3)))
    ]
    for result in results:
        if draw(st.booleans()):
            result["name"] = draw(st.sampled_from(["look", "write", "<|im_end|>"]))
    others: list[JsonObject] = draw(
        st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "user", "system", "developer", "assistant"]), "content": CONTENTS}
            ),
            max_size=2,
        )
    )
    return results + others


@st.composite
def tools(draw: st.DrawFn) -> list[JsonObject] | None:
    if draw(st.booleans()):
        return None
    function = {"name": draw(st.sampled_from(["look", "write"])), "parameters": draw(JSON)}
    return [{"type": "function", "function": function}]


@lru_cache(maxsize=100)
def prompter(name: str, *, frames: bool) -> Prompter:
    source, marks = TEMPLATES[name]
    vocabulary = small_vocabulary(marks)
    return Prompter(ChatTemplate(source, vocabulary.special_texts, frames=frames), vocabulary)


@pytest.mark.parametrize(
    "name", few(TEMPLATES, ["sorted_arguments", "qwen3", "thinking", "merged_results", "plain_marks"])
)
@given(new=messages(), tools=tools(), thinking=st.booleans() | st.none(), names=st.booleans())
def test_what_a_frame_gives_is_what_is_rendered(
    name: str, new: list[JsonObject], tools: list[JsonObject] | None, thinking: bool | None, names: bool
) -> None:
    arguments = {} if thinking is None else {"enable_thinking": thinking}
    named = {"call_1": "write", "a": "look"} if names else {}
    expected = written(prompter(name, frames=False), [], new, tools, arguments, names=named)
    for _ in range(2):
        assert written(prompter(name, frames=True), [], new, tools, arguments, names=named) == expected


@pytest.mark.parametrize("name", ["thinking", "qwen3_thinking", "qwen3", "chatml", "merged_results", "headers"])
def test_a_shape_is_rendered_once(name: str) -> None:
    source, marks = TEMPLATES[name]
    vocabulary = small_vocabulary(marks)
    template = ChatTemplate(source, vocabulary.special_texts)
    one = Prompter(template, vocabulary)
    tool: JsonObject = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

    def ask(call_id: str, content: str) -> None:
        result = {"role": "tool", "tool_call_id": call_id, "content": content}
        one.after([], [result], [tool], names={call_id: "look"})

    ask("call_1", "seen")
    before = template.renders
    ask("call_2", "and this")
    ask("call_3", "<|im_end|>")
    assert template.renders == before
    ask("call_4", "")
    assert template.renders > before


def test_users_are_looked_at_by_some_that_paste_results() -> None:
    one = prompter("qwen3", frames=True)
    template = one._template
    for _ in range(2):
        before = template.renders
        one.after([], [{"role": "user", "content": "Hi."}])
        assert template.renders > before


ALIKE: list[tuple[Any, Any]] = [
    (None, math.nan),
    ([1], (1,)),
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ("1", 1),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_that_are_written_alike_elsewhere_are_told_apart(one: Any, other: Any) -> None:
    """Of arguments and of tools."""
    source = "{{ m.content }}{{ [x, tools] }}"
    plain, framed = (endings(source, frames=each) for each in (False, True))
    texts = []
    for value in (one, other, one, other):
        tools: list[JsonObject] = [{"type": "function", "function": {"name": "look", "parameters": value}}]
        for asked in ({"x": value}, {"tools": tools}):
            texts.append(ending(framed, "a", **asked))
            assert texts[-1] == ending(plain, "a", **asked)
    assert len(set(texts)) == 4


def test_an_answer_among_what_is_new_is_rendered() -> None:
    one = prompter("chatml", frames=True)
    before = one._template.renders
    for _ in range(3):
        one.after([], [{"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}])
    assert one._template.renders == before + 3


def test_equal_requests_have_one_shape() -> None:
    framed = endings("{{ m.content }}{{ tools[0].function.parameters }}", frames=True)
    inner, text = {"type": "string"}, "".join(["a", "b"])
    for parameters in ({"a": inner, "b": inner}, {"a": dict(inner), "b": dict(inner)}):
        tools: list[JsonObject] = [{"function": {"name": text, "description": text, "parameters": parameters}}]
        ending(framed, "a", tools=tools)
        text = "ab"
    assert len(frames(framed)) == 1


def test_what_can_not_be_told_or_is_too_long_has_no_frame() -> None:
    framed = endings("{{ m.content }}{{ x is defined }}", frames=True)
    for x in (1, lambda: 1, "x" * 2**20):
        assert ending(framed, "a", x=x).text.endswith("aTrue<|im_end|>\n")
    assert len(frames(framed)) == 1


STOPS = ["END", "END!", "a longer END?"]


@pytest.mark.parametrize("content", ["!", "?", "x", " a longer END?", "END!"])
@pytest.mark.parametrize("before", ["", "the next is longer:", "?"])
def test_a_text_that_ends_an_answer_together_with_what_is_said_is_found(before: str, content: str) -> None:
    source = f"{{% for m in messages %}}{{{{ '{before}' if m.role == 'user' }}}}{{{{ m.content }}}}END{{% endfor %}}"
    plain, framed = (Endings(ChatTemplate(source, {}, frames=each), STOPS, {}) for each in (False, True))
    for said in ("x", content, content):
        new = [{"role": "user", "content": said}]
        asked: JsonObject = {"tools": None, "arguments": {}, "names": {}}
        assert framed.after(new, **asked) == plain.after(new, **asked)
    assert (frames(framed)[0] is not None) == (len(before) > 10)


@pytest.mark.parametrize(
    "source",
    [
        "{{ m.content }}{{ messages[1].content }}",
        "{{ m.content }}{{ messages[1].tool_calls[-1].function.arguments if messages | length > 3 }}",
    ],
)
def test_an_answer_that_is_told_again_is_ended_where_it_is_told_first(source: str) -> None:
    plain, framed = (endings(source, frames=each) for each in (False, True))
    for content in ("a", "<|im_end|>", "b"):
        texts = [
            ending(each, content, "x").text.replace(each._said, "").replace(each._argument, "")
            for each in (plain, framed)
        ]
        assert texts[0] == texts[1]
    assert frames(framed) == [None]


def test_ids_before_the_end_of_an_answer_are_rendered() -> None:
    source = TEMPLATES["chatml"][0].replace("{{- '<tool_call>", "{{- c.id ~ '<tool_call>")
    plain, framed = (Endings(ChatTemplate(source, {}, frames=each), ["<|im_end|>"], {}) for each in (False, True))
    for content in ("a", "<|im_end|", "b"):
        assert ending(framed, content) == ending(plain, content)
    assert frames(framed) == [None]


def test_what_is_kept_is_bounded() -> None:
    one = Frames()
    for place in range(3000):
        one.keep(b"%d" % place, Frame("", ("x",)) if place % 2 else None)
    assert len(one) == 512
    assert one.find(b"0") is None
    assert one.find(b"2999") is not None
    for place in range(100):
        one.keep(b"%d" % place + b"x" * 2**20, Frame("", ("x" * 2**20,)))
    assert len(one) == 3
    assert 6 * 2**20 < one.size_bytes < 8 * 2**20
    one.keep(b"x" * 2**24, None)
    assert len(one) == one.size_bytes == 0


def test_what_was_used_last_is_kept() -> None:
    one = Frames()
    for place in range(600):
        one.keep(b"%d" % place, Frame("", ()))
        assert one.find(b"0") is not None
    assert one.find(b"1") is None


def test_a_template_that_always_looks_is_asked_no_more() -> None:
    framed = endings("{{ m.content | trim }}", frames=True)
    assert framed.frames is not None
    for x in range(100):
        ending(framed, "a", x=x)
    assert framed.frames.given_up
    assert len(frames(framed)) == 64
    long = Frames()
    for place in range(64):
        assert not long.given_up
        long.keep(b"%d" % place + b"x" * 2**20, None)
    assert long.given_up
    other = endings("{{ m.content }}", frames=True)
    assert other.frames is not None
    for x in range(100):
        ending(other, "a", x=x)
    assert not other.frames.given_up
    assert len(frames(other)) == 100
