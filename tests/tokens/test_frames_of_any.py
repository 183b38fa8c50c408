"""Frames of templates that were never written by anyone: random expressions over what messages say."""

from copy import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.filters import FILTERS
from jinja2.tests import TESTS
from tests.sampling import PARTS

from paddock.errors import ConfigError, RequestError
from paddock.tokens import ChatTemplate
from paddock.tokens.endings import Endings
from paddock.types import JsonObject

_SAID = [
    "m.content",
    "m.content",
    "m['content']",
    "m.tool_call_id",
    "t",
    "ns.t",
    "w(m.content)",
    "loop.previtem.content",
]
_ATOMS = [*_SAID * 2, "'a'", "'b%s'", "''", "1", "none", "true", "m", "messages", "[m.content]", "{'a': m.content}"]
_ATOMS += ["m.role", "nothing", "messages[1].tool_calls[0].id", "loop.changed(m.content)", "loop.previtem"]
_ATOMS += ["(messages | map(attribute='content'))", "messages[2:] | map(attribute='content') | list"]
_FILTERS = [*sorted(set(FILTERS) - {"random"}), *["list", "first", "default", "string", "last", "d"] * 4]
_TESTS = [*(name for name in TESTS if name.isalpha()), *["string", "defined", "none", "mapping"] * 4]
_METHODS = [
    "strip",
    "upper",
    "split",
    "items",
    "get",
    "keys",
    "format",
    "join",
    "startswith",
    "isdigit",
    "encode",
    "count",
]
_METHODS += ["index", "translate", "maketrans", "format_map", "replace", "center", "partition", "zfill", "title"]
_OPERATORS = [*["~", "or", "and"] * 4, *["==", "!=", "in", "not in", "+"] * 2, "<", "%", "*", "-", "//", "**"]


def _made(form: str, *strategies: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*strategies).map(lambda parts: form.format(*parts))


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    filters, tests, methods, said = map(st.sampled_from, (_FILTERS, _TESTS, _METHODS, _SAID))
    return st.one_of(
        *[_made("({0} {1} {2})", inner, st.sampled_from(_OPERATORS), inner)] * 4,
        *[_made("({0} | {1})", inner, filters)] * 2,
        _made("({0} | {1}({2}))", inner, filters, inner),
        *[_made("({0} is {1})", inner, tests)] * 2,
        _made("({0} is not {1}({2}))", inner, tests, inner),
        _made("({0}.{1}())", said, methods),
        _made("({0}.{1}({2}))", inner, methods, inner),
        _made("('a-{{}}-%s'.{1}({0}, {2}))", inner, methods, inner),
        _made("({0}[{1}])", inner, inner),
        _made("({0}[:{1}])", said, inner),
        *[_made("({0} if {1} else {2})", inner, inner, inner)] * 3,
        _made("([{0}, {1}])", inner, inner),
        _made("([{0}, {1}])[1]", inner, inner),
        _made("({{'a': {0}, {1}: 1}})", inner, said),
        _made("({{'a': {0}}}).a", inner),
        _made("namespace(t={0}).t", inner),
        _made("dict(a={0})", inner),
        _made("w({0})", inner),
        _made("(messages | map('{0}', {1}) | list)", filters, inner),
        _made("([{1}] | map('{0}') | list)", filters, inner),
        _made("([{1}, {2}] | select('{0}') | list)", tests, inner, inner),
        _made("(messages | selectattr('content', '{0}', {1}) | list | length)", tests, inner),
        _made("(messages | selectattr('content', '{0}') | list | length)", tests),
        _made("cycler({0}, {1}).next()", inner, inner),
        _made("(not {0})", inner),
    )


EXPRESSIONS = st.recursive(st.sampled_from(_ATOMS), _grown, max_leaves=5)


@st.composite
def statements(draw: st.DrawFn) -> str:
    said, other = draw(EXPRESSIONS), draw(EXPRESSIONS)
    return draw(
        st.sampled_from(
            [
                "{{ m.content }}",
                f"{{{{ {said} }}}}",
                f"{{% if {said} %}}{{{{ {other} }}}}{{% else %}}x{{% endif %}}",
                f"{{% set t = {said} %}}",
                f"{{% set ns.t = {said} %}}",
                f"{{% set t %}}{{{{ {said} }}}}{{% endset %}}",
                f"{{% set t | {draw(st.sampled_from(_FILTERS))} %}}{{{{ {said} }}}}{{% endset %}}",
                f"{{% filter {draw(st.sampled_from(_FILTERS))} %}}{{{{ {said} }}}}{{% endfilter %}}",
                f"{{% for c in {said} %}}{{{{ c }}}}{{{{ loop.changed(c) }}}}{{{{ {other} }}}}{{% endfor %}}",
                f"{{% call w({said}) %}}{{{{ {other} }}}}{{% endcall %}}",
                f"{{% generation %}}{{{{ {said} }}}}{{% endgeneration %}}",
                f"{{% with t = {said} %}}{{{{ t }}}}{{% endwith %}}",
                f"{{% autoescape true %}}{{{{ {said} }}}}{{% set ns.t = {other} %}}{{% endautoescape %}}",
            ]
        )
    )


HEAD = """\
{%- macro w(x) %}<{{ x }}{{ caller() if caller }}>{% endmacro %}
{%- set ns = namespace(t='') %}
{%- for m in messages %}
{%- set t = 'z' %}
{%- if m.role != 'tool' %}{{- m.content ~ '<|im_end|>' }}
{%- else %}{{- 'the result: ' }}"""
TAIL = "{% endif %}{% endfor %}"
CONTENTS = st.sampled_from(
    ["a", "b", "ab", " a ", "", "1", "0", "<", "'", "A", "trim", "content", "%s", "{}", "é\n", "<|im_end|>", "strip"]
)


def _told(endings: Endings, new: list[JsonObject]) -> Any:
    try:
        ending = endings.after(new, tools=None, arguments={}, names={})
    except RequestError as error:
        return error.kind, error.message
    return ending.end_text, ending.text


def _is_fixed(endings: Endings, new: list[JsonObject]) -> bool:
    """Whether the same is told of the same: a template may write where in memory an object lies."""
    told = set()
    held = []
    for _ in range(10):
        told.add(_told(endings, new))
        held.append([bytes(size) for size in range(0, 512, 8) for _ in range(5)])  # what is free is another's now
    return len(told) == 1


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@given(
    body=st.lists(statements(), min_size=1, max_size=4),
    asked=st.lists(st.lists(CONTENTS, min_size=1, max_size=2), min_size=2, max_size=6),
)
@settings(max_examples=75)
@PARTS
def test_no_frame_differs_from_the_text(part: int, body: list[str], asked: list[list[str]]) -> None:
    try:
        template = ChatTemplate(HEAD + "".join(body) + TAIL, {})
        framed = Endings(template, ["<|im_end|>"], {})
    except ConfigError:
        return
    plain = copy(framed)
    plain.frames = None
    for contents in asked:
        new: list[JsonObject] = [
            {"role": "tool", "tool_call_id": f"{content}-", "content": content} for content in contents
        ]
        one, other = _told(framed, new), _told(plain, new)
        assert one == other or not _is_fixed(plain, new)


@pytest.mark.parametrize(
    ("body", "fixed"),
    [
        ("{{ m.content | upper }}", True),
        ("{{ m.content.nothing.at_all }}", True),
        ("{{ messages | select }}", False),
        ("{% filter urlencode %}{{ (messages | map('select', m.content) | list) }}{% endfilter %}", False),
        ("{{ messages | select | string | upper | reverse | center }}", False),
    ],
)
def test_what_tells_where_an_object_lies_is_known_however_it_is_written(body: str, fixed: bool) -> None:
    endings = Endings(ChatTemplate(f"{HEAD}{body}{TAIL}", {}), ["<|im_end|>"], {})
    endings.frames = None
    assert _is_fixed(endings, [{"role": "tool", "tool_call_id": "a-", "content": "a"}]) == fixed
