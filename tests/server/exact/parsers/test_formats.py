"""Claims about answers as models write them: they mean what was written, whole or in whatever pieces they come."""

import json
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.example_answers import MARKS, TOOLS, WORDS, WRITERS, example_answer, message

from paddock.errors import ConfigError
from paddock.server.exact import Parser, ParserFactory
from paddock.server.exact.parsers import REASONING_FORMATS, TOOL_FORMATS, answer_parsers
from paddock.testing.vocabularies import small_vocabulary

REASONING = {"glm45": "glm45", "hermes": "qwen3", "qwen3_coder": "qwen3"}
RANDOM = st.randoms(use_true_random=False)
PIECES = st.sampled_from(
    [
        *MARKS,
        *WORDS,
        *("<function=bash>", "</function>", "<parameter=a_string>", "</parameter>", "bash", "[CALL_ID]", "```json\n"),
        *(
            '{"name": "bash", "arguments": {}}',
            '{"a_string": "x"}',
            "bash()",
            "<|channel|>analysis",
            "<|channel|>final",
        ),
        *("<|start|>assistant", "<|message|>", "<|end|>", " to=functions.bash", "<|call|>", "<tool", "[TOOL_", "</thi"),
    ]
)


@cache
def factory(tool_parser: str | None, reasoning_parser: str | None) -> ParserFactory:
    return answer_parsers(small_vocabulary(), tool_parser=tool_parser, reasoning_parser=reasoning_parser)


def in_pieces(parser: Parser, text: str, random: Random) -> dict[str, Any]:
    """The message of a stream."""
    cuts = sorted(random.randint(0, len(text)) for _ in range(random.randint(0, 12)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    merged: dict[str, Any] = {"content": ""}
    for nth, piece in enumerate(pieces):
        delta = parser.feed(piece, (), finished=nth == len(pieces) - 1) or {}
        for key, value in delta.items():
            merged[key] = merged[key] + value if key in merged else value
    return merged


@pytest.mark.parametrize("way", WRITERS)
@given(RANDOM)
def test_a_well_formed_answer_means_what_was_written(way: str, random: Random) -> None:
    name = WRITERS[way][0]
    with_reasoning = random.random() < 0.5
    answer = example_answer(random, way, reasoning=with_reasoning)
    parsers = factory(name, REASONING.get(name, "deepseek_r1") if with_reasoning else None)
    reasoning, content, calls = message(parsers(TOOLS, ()).whole(answer.text, ()))
    assert (reasoning, content.strip(), calls) == (answer.reasoning, answer.content.strip(), answer.calls)


@pytest.mark.parametrize("tool_parser", TOOL_FORMATS)
@given(RANDOM, st.lists(PIECES, max_size=14))
def test_a_stream_means_what_the_whole_answer_means(tool_parser: str, random: Random, pieces: list[str]) -> None:
    names = ["openai_gptoss", None] if tool_parser == "openai" else [*REASONING_FORMATS[:-1], None]
    parsers = factory(tool_parser, random.choice(names))
    tools = random.choice([TOOLS, []])
    text = "".join(pieces)
    assert in_pieces(parsers(tools, ()), text, random) == parsers(tools, ()).whole(text, ())


@pytest.mark.parametrize("tool_parser", [name for name in TOOL_FORMATS if name != "openai"])
@given(st.lists(PIECES, max_size=14))
def test_without_a_call_all_text_is_content(tool_parser: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    _, content, calls = message(factory(tool_parser, None)(TOOLS, ()).whole(text, ()))
    assert calls or content == text
    assert message(factory(tool_parser, None)([], ()).whole(text, ())) == ("", text, [])


@pytest.mark.parametrize("reasoning_parser", REASONING_FORMATS[:-1])
@given(st.lists(PIECES, max_size=14))
def test_reasoning_takes_no_more_than_its_marks(reasoning_parser: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    reasoning, content, _ = message(factory(None, reasoning_parser)([], ()).whole(text, ()))
    thought, mark, rest = text.partition("</think>")
    assert (reasoning, content) == (thought.replace("<think>", "", 1), rest)
    assert mark or not content


@given(RANDOM)
def test_text_before_a_call_is_streamed(random: Random) -> None:
    parser = factory("hermes", None)(TOOLS, ())
    assert parser.feed("Let me look.\n<tool", (), finished=False) == {"content": "Let me look.\n"}
    assert parser.feed('_call>{"name": "no_args", ', (), finished=False) is None
    delta = parser.feed('"arguments": {}}</tool_call>\n', (), finished=True)
    assert delta is not None
    assert message(delta) == ("", "", [("no_args", {})])


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("<|im_end|>\n<|im_start|>assistant\n", ("a<think>b", "c")),
        ("<|im_end|>\n<|im_start|>assistant\n<think>\n", ("a<think>b", "c")),
        ("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", ("", "<think>a<think>b</think>c")),
        ("<think></think><|im_end|>\n<|im_start|>assistant\n", ("a<think>b", "c")),
    ],
)
def test_the_prompts_end_tells_whether_the_answer_begins_within_the_reasoning(
    prompt: str, expected: tuple[str, str]
) -> None:
    vocabulary = small_vocabulary()
    parsers = answer_parsers(vocabulary, tool_parser=None, reasoning_parser="qwen3")
    parsed = parsers((), vocabulary.encode("hi" + prompt)).whole("<think>a<think>b</think>c", ())
    assert message(parsed) == (*expected, [])


def test_a_call_ends_reasoning_that_was_not_closed() -> None:
    text = 'so\n<tool_call>{"name": "no_args", "arguments": {}}</tool_call>'
    assert message(factory("hermes", "qwen3")(TOOLS, ()).whole(text, ())) == ("so\n", "", [("no_args", {})])
    assert message(factory("hermes", "deepseek_r1")(TOOLS, ()).whole(text, ())) == (text, "", [])
    assert message(factory("hermes", "qwen3")([], ()).whole(text, ())) == (text, "", [])


def test_channels_are_reasoning_content_and_calls() -> None:
    parsers = factory("openai", "openai_gptoss")
    thought = "<|channel|>analysis<|message|>so<|end|><|start|>assistant"
    call = '<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{"a_string": "<b>"}'
    early = call.replace(" to=functions.bash", "").replace("<|channel|>", " to=functions.bash<|channel|>")
    called = [("bash", {"a_string": "<b>"})]
    assert message(parsers(TOOLS, ()).whole(thought + call, ())) == ("so", "", called)
    assert message(parsers(TOOLS, ()).whole(f"{thought}{early}<|call|>", ())) == ("so", "", called)
    assert message(parsers([], ()).whole(thought + call, ())) == ("so", f"<|start|>assistant{call}", [])
    final = f"{thought}<|channel|>commentary<|message|>first<|end|><|start|>assistant<|channel|>final<|message|>done"
    assert message(parsers(TOOLS, ()).whole(f"{thought}{final}", ())) == ("so\nso", "first\ndone", [])
    assert message(parsers(TOOLS, ()).whole("hello", ())) == ("", "hello", [])
    other = "<|channel|>analysis to=python<|message|>1 + 1<|call|>"
    assert message(parsers(TOOLS, ()).whole(other, ())) == ("", other, [])


@pytest.mark.parametrize(
    ("tool_parser", "reasoning_parser"),
    [("hermess", None), (None, "qwen"), ("openai", "qwen3"), ("hermes", "openai_gptoss")],
)
def test_a_format_that_there_is_not_is_an_error_of_the_config(
    tool_parser: str | None, reasoning_parser: str | None
) -> None:
    with pytest.raises(ConfigError) as error:
        answer_parsers(small_vocabulary(), tool_parser=tool_parser, reasoning_parser=reasoning_parser)
    assert error.value.kind == "parser_unknown"


def test_values_are_of_the_types_that_the_tool_names() -> None:
    values = {
        "a_integer": "abc",
        "a_boolean": "True",
        "a_string": "1",
        "a_free": "2",
        "a_object": "{'a': 1}",
        "x": "null",
    }
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    parsed = factory("qwen3_coder", None)(TOOLS, ()).whole(
        f"<tool_call><function=bash>{body}</function></tool_call>", ()
    )
    assert message(parsed)[2] == [("bash", {**values, "a_boolean": True})]


BAD_JSON = ['{"name": "bash"}', '{"name": "", "arguments": {}}', '{"name": "bash", "arguments": "{}"}', "[]", "1", ""]
BAD_JSON += ['{"name": "bash", "arguments": {"a": NaN}}', '{"name": "bash", "arguments": {"a": 1e999}}']
BAD_JSON += ['{"name": "bash", "arguments": {"a": ' + "[" * 100_000, '{"name": "\\ud800", "arguments": {}}']
BAD_JSON += ['{"name": "bash", "arguments": {"a": ' + "1" * 5000 + "}}"]


@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
def test_what_is_no_call_is_content(body: str) -> None:
    for name, text in {
        "hermes": f"<tool_call>{body}</tool_call>",
        "llama3_json": body.replace("arguments", "parameters"),
        "mistral": f"[TOOL_CALLS][{body}]",
    }.items():
        assert message(factory(name, None)(TOOLS, ()).whole(text, ())) == ("", text, [])


def test_arguments_are_json_that_can_be_sent() -> None:
    text = '<tool_call>{"name": "bash", "arguments": {"a": "\\ud800", "b": "é"}}</tool_call>'
    (call,) = factory("hermes", None)(TOOLS, ()).whole(text, ())["tool_calls"]
    assert json.loads(call["function"]["arguments"].encode()) == {"a": "\ud800", "b": "é"}


LONG = {
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + "a<｜tool▁sep｜>" * 20_000,
    "glm45": "<tool_call>f" + "<arg_key></arg_key><arg_value></arg_value>x" * 20_000 + "</tool_call>",
    "mistral": "[TOOL_CALLS]f" + " " * 200_000,
    "pythonic": "[" * 100_000,
    "qwen3_coder": "<tool_call><function=f>" + "<parameter=a></parameter> x" * 20_000 + "</function></tool_call>",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_answer_that_is_no_call_is_content(name: str) -> None:
    assert message(factory(name, None)(TOOLS, ()).whole(LONG[name], ())) == ("", LONG[name], [])
