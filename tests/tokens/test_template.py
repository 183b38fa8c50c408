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
def test_a_template_that_loses_content_unless_it_is_parts_gets_parts(loop: str) -> None:
    source = (
        "{% for m in messages %}{% set content = m.content %}"
        f"{{% for part in {loop} %}}{{{{ part.text }}}}{{% endfor %}}{{{{ m.content is string }}}}{{% endfor %}}"
    )
    messages: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": each} for each in "ab"]}]
    assert rendered(source, messages) == ("abFalse" if "1:" not in loop else "bFalse")
    assert rendered(source, [{"role": "user", "content": "x"}]) == ("xFalse" if "1:" not in loop else "False")


BOTH = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}\n{% endfor %}{% endif %}"
)


def test_a_template_that_takes_content_in_both_forms_gets_strings() -> None:
    messages: list[JsonObject] = [USER, {"role": "assistant", "content": ""}]
    assert rendered(f"{{% for m in messages %}}{BOTH}{{% endfor %}}", messages) == "Hi."


PARTS_OF_USERS = """\
{% for m in messages %}
{% if m.role == 'assistant' %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}
{% endfor %}"""


def test_each_role_has_its_own_form_of_content() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer: JsonObject = {"role": "assistant", "content": "", "tool_calls": [call]}
    result: JsonObject = {"role": "tool", "tool_call_id": "a", "content": "seen"}
    assert rendered(PARTS_OF_USERS, [{"role": "system", "content": "A"}, USER, answer, result]) == "AHi.seen"
    assert rendered(PARTS_OF_USERS, [USER, {"role": "assistant", "content": "So."}]) == "Hi.So."


def test_a_template_that_refuses_a_part_without_text_is_given_strings() -> None:
    checked = BOTH.replace("{{ p.text }}", "{{ p.text if p.text else raise_exception('a part without text') }}")
    messages: list[JsonObject] = [USER, {"role": "assistant", "content": ""}]
    assert rendered(f"{{% for m in messages %}}{checked}{{% endfor %}}", messages) == "Hi."


def test_a_template_that_refuses_strings_is_given_parts() -> None:
    assert rendered("{% for m in messages %}{{ ([] + m.content)[0].text }}{% endfor %}") == "Hi."


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
    source = "{% for m in messages %}{{ m.role ~ m.content }} {% endfor %}"
    messages = [USER, {"role": "developer", "content": "!"}]
    assert rendered(source, messages) == "userHi. system! "
    assert rendered(source + "{# 'developer' #}", messages) == "userHi. system! "
    assert rendered(source + "{{ '-' if 'developer' == messages[-1].role }}", messages) == "userHi. developer! -"


@pytest.mark.parametrize(
    "beginning",
    [
        "{% for m in messages if m.role in ('system', 'user') or (m.role == 'developer' and false) %}",
        "{% for m in messages %}{% if m.role == 'developer' %}{{ raise_exception('who?') }}{% endif %}",
        "{% for m in messages if m.role != 'developer' or messages[0] is sameas m %}",
    ],
)
def test_a_developer_of_whom_a_template_writes_nothing_is_the_system(beginning: str) -> None:
    source = beginning + "[{{ m.role }}]{{ m.content }}{% endfor %}"
    messages: list[JsonObject] = [{"role": "developer", "content": "DEVTEXT"}, USER]
    assert rendered(source, messages) == "[system]DEVTEXT[user]Hi."
    later: list[JsonObject] = [USER, {"role": "assistant", "content": "So."}, messages[0], USER]
    assert "DEVTEXT" in rendered(source, later)


def test_a_developer_that_is_heard_at_the_start_alone_as_systems_are_stays_one() -> None:
    source = (
        "{% for m in messages %}{% if loop.first and m.role in ['system', 'developer'] %}[rules]{{ m.content }}"
        "{% elif m.role in ['user', 'assistant'] %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}"
    )
    template = ChatTemplate(source, {})
    assert template.forms.developer
    assert rendered(source, [{"role": "developer", "content": "DEVTEXT"}, USER]) == "[rules]DEVTEXT[user]Hi."


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ('{"b": 1,"a": "\\u00e9"}', '{"b": 1,"a": "\\u00e9"}'),
        ({"a": "é"}, '{"a": "é"}'),
        ('{"b": ', '{"b": '),
        ("", "{}"),
    ],
)
def test_arguments_are_their_string_where_the_template_can_only_paste_it(given: Any, text: str | None) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": given}}
    answer: JsonObject = {"role": "assistant", "content": "", "tool_calls": [call]}
    source = (
        "{% for m in messages %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name + ':' + c.function.arguments }}{% endfor %}{% endfor %}"
    )
    assert rendered(source, [USER, answer]) == f"Hi.look:{given if text is None else text}"


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
