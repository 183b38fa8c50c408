"""Chat templates: what they are given, what they may do, and how they refuse."""

from datetime import datetime
from typing import Any

import pytest

from paddock.errors import ConfigError, RequestError
from paddock.tokens import ChatTemplate
from paddock.types import JsonObject

USER: JsonObject = {"role": "user", "content": "Hi."}


def rendered(source: str, messages: list[JsonObject] | None = None, **given: Any) -> str:
    tools, prompt = given.pop("tools", None), given.pop("generation_prompt", True)
    template = ChatTemplate(source, {"bos_token": "<s>"}, clock=lambda: datetime(2020, 2, 3))
    return template.render(
        [USER] if messages is None else messages, tools=tools, generation_prompt=prompt, arguments=given
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ pad_token }}|", "<s>|"),
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b": "<é>", "a": 1}'),
        ("{{ [1, {'a': 2}] | tojson(indent=1) }}", '[\n 1,\n {\n  "a": 2\n }\n]'),
        ("{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
        ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
        ("{{ '<a>' }}", "<a>"),
        ("{{ strftime_now('%Y-%m-%d') }}", "2020-02-03"),
        ("{% generation %}a{{ messages[0].content }}{% endgeneration %}b", "aHi.b"),
        ("{{ 'prompt' if add_generation_prompt }}", "prompt"),
        ("{{ tools is none }}{{ documents is none }}", "TrueTrue"),
    ],
)
def test_templates_find_what_they_are_written_for(source: str, text: str) -> None:
    assert rendered(source) == text


def test_a_requests_arguments_are_variables_but_for_what_the_request_says_itself() -> None:
    source = "{{ enable_thinking }}{{ messages | length }}{{ add_generation_prompt }}{{ bos_token }}"
    assert rendered(source, enable_thinking=False, bos_token="x", generation_prompt=False) == "False1Falsex"
    template = ChatTemplate(source, {})
    text = template.render([USER], tools=None, generation_prompt=True, arguments={"add_generation_prompt": False})
    assert text == "1True"


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ('{"b": 1, "a": "\\u00e9"}', {"b": 1, "a": "é"}),
        ("", {}),
        (None, {}),
        ("[1]", "[1]"),
        ('{"b": ', '{"b": '),
        ("[" * 100_000, "[" * 100_000),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments_are_objects_where_they_hold_one(given: Any, arguments: Any) -> None:
    function = {"name": "look", "arguments": given}
    call = {"id": "a", "type": "function", "function": function}
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert rendered("{{ messages[1].tool_calls[0].function.arguments }}", messages) == str(arguments)
    assert function["arguments"] == given


def test_arguments_that_a_template_can_not_write_are_left_out() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"b": '}}
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    source = "{% for key, value in messages[1].tool_calls[0].function.arguments | items %}{{ key }}{% endfor %}."
    assert rendered(source, messages) == "."


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "''"),
        ("", "''"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}], "'a\\nb'"),
        ([{"type": "refusal", "refusal": "no"}], "'no'"),
    ],
)
def test_content_is_a_string(content: Any, text: str) -> None:
    assert rendered("{{ messages | map(attribute='content') | list }}", [{"role": "user", "content": content}]) == (
        f"[{text}]"
    )


@pytest.mark.parametrize("loop", ["m.content", "m['content']", "content", "m.content | list", "m.content[1:]"])
def test_a_template_that_loops_over_content_gets_parts(loop: str) -> None:
    source = (
        "{% for m in messages %}{% set content = m.content %}"
        f"{{% for part in {loop} %}}{{{{ part.text }}}}{{% endfor %}}{{{{ m.content is string }}}}{{% endfor %}}"
    )
    messages: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": each} for each in "ab"]}]
    messages.append({"role": "tool", "content": "x"})
    assert rendered(source, messages).startswith("abFalse" if "1:" not in loop else "bFalse")
    assert rendered(source, messages).endswith("True")


def test_content_that_is_no_text_is_refused() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(RequestError, match="image_url") as caught:
        rendered("", [image])
    assert caught.value.kind == "content_unsupported"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_has_both_of_its_names(field: str) -> None:
    source = "{{ messages[0].reasoning }}{{ messages[0].reasoning_content }}"
    assert rendered(source, [{"role": "assistant", "content": "", field: "hm"}]) == "hmhm"
    assert rendered(source, [{"role": "user", "content": "", field: "hm"}]) == ""


def test_tools_are_in_one_form() -> None:
    function = {"parameters": {}, "name": "look", "more": 1}
    tools = [{"function": function}, {"type": "function", "function": {**function, "strict": True}, "x": 1}]
    assert rendered("{{ tools | tojson }}", tools=tools) == (
        '[{"type": "function", "function": {"name": "look", "description": null, "parameters": {}}}, '
        '{"type": "function", "function": {"name": "look", "description": null, "parameters": {}, "strict": true}}]'
    )
    assert rendered("{{ tools }}", tools=[]) == "None"


def test_a_developer_is_the_system_unless_the_template_knows_it() -> None:
    source = "{% for m in messages %}{{ m.role }} {% endfor %}"
    messages = [USER, {"role": "developer", "content": ""}]
    assert rendered(source, messages) == "user system "
    assert rendered(source + "{# 'developer' #}", messages) == "user developer "


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ raise_exception('roles must take turns') }}", "chat template: roles must take turns"),
        ("{{ messages[0].content.nothing.more }}", "nothing"),
        ("{{ 1 + 'a' }}", "TypeError"),
        ("{{ messages.append(1) }}", "append"),
        ("{{ messages[0].__class__.__mro__ }}", "__class__"),
    ],
)
def test_a_template_refuses_in_its_own_words(source: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        rendered(source)
    assert caught.value.kind == "template_refused"


@pytest.mark.parametrize("source", ["a\n\n{% if %}", "a\n\n{{ 1 | no_such_filter }}", "a\n\n{% generation %}"])
def test_a_template_that_does_not_compile_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(ConfigError, match="line 3: ") as caught:
        ChatTemplate(source, {})
    assert caught.value.kind == "template_invalid"


def test_a_constant_that_can_be_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="TypeError: unhashable") as caught:
        ChatTemplate("{{ {['a']: 1} | tojson }}", {})
    assert caught.value.kind == "template_invalid"
