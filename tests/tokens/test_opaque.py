"""Templates that look at what is said, and those that only paste it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import orjson
import pytest
from markupsafe import escape
from tests.tokens.framed import ending, endings, frames

from paddock.tokens import ChatTemplate
from paddock.tokens.endings import Endings
from paddock.tokens.message_end import Ending
from paddock.tokens.opaque import LookedError, Opaque, pasted, pieces_of

ESCAPED = "{% set ns = namespace() %}{% autoescape true %}{% set ns.t %}x{% endset %}"
LOOKING = {
    "trim": ("{{ m.content | trim }}", "a", " a"),
    "strip": ("{{ m.content.strip() }}", "a", " a"),
    "strip by name": ("{{ m.content['strip']() }}", "a", " a"),
    "start": ("{{ 'so: ' if m.content.startswith('a') }}{{ m.content }}", "a", "b"),
    "length": ("{{ m.content | length }}{{ m.content }}", "a", "bb"),
    "slice": ("{{ m.content[1:] }}", "ab", "aab"),
    "letter": ("{{ m.content[0] }}", "ab", "ba"),
    "letter of": ("{{ 'abc'[m.content | length] }}{{ m.content }}", "a", "bb"),
    "equal": ("{{ m.content == 'a' }}{{ m.content }}", "a", "b"),
    "equal to it": ("{{ 'a' == m.content }}{{ m.content }}", "a", "b"),
    "not equal": ("{{ m.content != 'a' }}{{ m.content }}", "a", "b"),
    "less": ("{{ m.content < 'b' }}{{ m.content }}", "a", "c"),
    "has": ("{{ 'a' in m.content }}{{ m.content }}", "a", "b"),
    "is in text": ("{{ m.content in 'abc' }}{{ m.content }}", "a", "d"),
    "is in a list": ("{{ m.content in ['a', 1, none] }}{{ m.content }}", "a", "b"),
    "list of it": ("{{ ['a'] == [m.content] }}{{ m.content }}", "a", "b"),
    "object of it": ("{{ {'a': m.content} == {'a': 'a'} }}{{ m.content }}", "a", "b"),
    "width": ("{{ '%3s' % m.content }}", "a", "bb"),
    "width in a tuple": ("{{ '%3s' % (m.content,) }}", "a", "bb"),
    "width in an object": ("{{ '%(a)3s' % {'a': m.content} }}", "a", "bb"),
    "its own format": ("{{ (m.content ~ '%s') % 1 }}", "a", "%%"),
    "format": ("{{ '{:>3}'.format(m.content) }}", "a", "bb"),
    "format of a list": ("{{ '{0[0]}'.format([m.content, m.content]) | length }}{{ m.content }}", "a", "bb"),
    "format map": ("{{ '{a:>3}'.format_map({'a': m.content}) }}", "a", "bb"),
    "format filter": ("{{ '%3s' | format(m.content) }}", "a", "bb"),
    "upper": ("{{ m.content | upper }}", "a", "b"),
    "replace": ("{{ m.content | replace('a', 'b') }}", "ba", "ca"),
    "replaced by it": ("{{ 'xax'.replace(m.content, '') }}", "a", "b"),
    "split": ("{{ m.content.split('b')[0] }}", "ab", "cb"),
    "json": ("{{ m.content | tojson }}", "a", '"'),
    "json of the message": ("{{ m | tojson }}", "a", '"'),
    "printed list": ("{{ [m.content] }}", "a", "'"),
    "printed message": ("{{ m }}", "a", "'"),
    "printed in a text": ("{{ 'x' ~ [m.content] }}", "a", "'"),
    "text filter": ("{{ [m.content] | string }}", "a", "'"),
    "sum trimmed": ("{{ (m.content + 'x').strip() }}", "a", " a"),
    "joined trimmed": ("{{ (m.content ~ 'x') | trim }}", "a", " a"),
    "joined compared": ("{{ (m.content ~ 'x') == 'ax' }}{{ m.content }}", "a", "b"),
    "join": ("{{ [m.content, 'x'] | join(' ') | trim }}", "a", " a"),
    "join of text": ("{{ ' '.join([m.content]).split('a') | length }}{{ m.content }}", "a", "b"),
    "join by map": ("{{ messages | map(attribute='content') | join | length }}{{ m.content }}", "a", "bb"),
    "block": ("{% set t %}{{ m.content }}{% endset %}{{ t | trim }}", "a", " a"),
    "block compared": ("{% set t %}{{ m.content }}{% endset %}{{ t == 'a' }}{{ t }}", "a", "b"),
    "block with a filter": ("{% set t | trim %}{{ m.content }}{% endset %}{{ t }}", "a", " a"),
    "filtered block": ("{% filter trim %}{{ m.content }}{% endfilter %}", "a", " a"),
    "macro": ("{% macro w(x) %}{{ x | trim }}{% endmacro %}{{ w(m.content) }}", "a", " a"),
    "macro's text": ("{% macro w(x) %}{{ x }}{% endmacro %}{{ w(m.content) | trim }}", "a", " a"),
    "caller": (
        "{% macro w() %}{{ caller() | trim }}{% endmacro %}{% call w() %}{{ m.content }}{% endcall %}",
        "a",
        " a",
    ),
    "namespace": ("{% set ns = namespace(t=m.content) %}{{ ns.t | trim }}", "a", " a"),
    "key": ("{{ {m.content: 1}['a'] }}{{ m.content }}", "a", "b"),
    "looked up": ("{{ {'a': 1}[m.content] }}{{ m.content }}", "a", "b"),
    "got": ("{{ {'a': 1}.get(m.content) }}{{ m.content }}", "a", "b"),
    "attribute": ("{{ 'x'[m.content] is defined }}{{ m.content }}", "upper", "b"),
    "int": ("{{ m.content | int }}{{ m.content }}", "1", "a"),
    "float": ("{{ m.content | float }}", "1", "a"),
    "sort": ("{{ [m.content, 'b'] | sort | first }}{{ m.content }}", "a", "c"),
    "unique": ("{{ [m.content, 'b'] | unique | list | length }}{{ m.content }}", "a", "b"),
    "max": ("{{ [m.content, 'b'] | max == 'b' }}{{ m.content }}", "a", "c"),
    "group": ("{{ [m, m] | groupby('content') | first | first | length }}{{ m.content }}", "a", "bb"),
    "twice": ("{{ (m.content * 2) | length }}{{ m.content }}", "a", "bb"),
    "escape": ("{{ m.content | e }}", "a", "<"),
    "escaped": ("{% autoescape true %}{{ m.content }}{% endautoescape %}", "a", "<"),
    "escaped join": ("{% autoescape true %}{{ 'x' ~ m.content }}{% endautoescape %}", "a", "<"),
    "escaped sum": (f"{ESCAPED}{{% endautoescape %}}{{{{ ns.t + m.content }}}}", "a", "<"),
    "escaped sum, kept": (f"{ESCAPED}{{% set ns.t = ns.t ~ m.content %}}{{% endautoescape %}}{{{{ ns.t }}}}", "a", "<"),
    "lower": ("{{ m.content is lower }}{{ m.content }}", "a", "B"),
    "test": ("{{ m.content is eq('a') }}{{ m.content }}", "a", "b"),
    "test of a list": ("{{ m.content is in ['a'] }}{{ m.content }}", "a", "b"),
    "select": ("{{ messages | selectattr('content', 'equalto', 'a') | list | length }}{{ m.content }}", "a", "b"),
    "map": ("{{ messages | map(attribute='content') | map('trim') | list | last }}", "a", " a"),
    "letters": ("{% for c in m.content %}{{ c }}.{% endfor %}", "a", "bb"),
    "first": ("{{ m.content | first }}", "ab", "ba"),
    "last": ("{{ m.content | last }}", "ab", "aa"),
    "list": ("{{ m.content | list | length }}{{ m.content }}", "a", "bb"),
    "reverse": ("{{ m.content | reverse }}", "ab", "cd"),
    "filter of that name": ("{{ m.content is filter }}{{ m.content }}", "trim", "b"),
    "error": ("{% if m.content == 'b' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}", "a", "b"),
    "id": ("{{ m.tool_call_id | length }}{{ m.content }}", "a", "bb"),
    "ids": ("{{ m.tool_call_id == 'a0' }}{{ m.content }}", "a", "b"),
    "calls": ("{{ messages[1].tool_calls[0].id == 'a0' }}{{ m.content }}", "a", "b"),
}
"""What is written, and two contents of which it doesn't merely paste them."""


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("back", [False, True])
def test_a_template_that_looks_at_what_is_said_gets_no_frame(name: str, back: bool) -> None:
    source, one, other = LOOKING[name]
    plain, framed = (endings(source, frames=each) for each in (False, True))
    for content in (other, one, other) if back else (one, other, one):
        assert ending(framed, content) == ending(plain, content)
    assert set(frames(framed)) == {None}
    said = ending(plain, one)
    assert ending(plain, other) != (said[0], said[1].replace(one, other))


@pytest.mark.parametrize(
    "source",
    [
        "{{ strftime_now('%S') }}",
        "{{ [1] | random }}",
        "{{ m.content }}{{ m.role is sameas('tool') }}",
        "{{ messages[2:] | map(attribute='content') | batch(2) | list | length }}",
        "{{ lipsum() }}",
        "{{ m.content is iterable }}",
        "{{ m.content is sameas(m.role) }}",
        "{{ m.content.nothing }}",
        "{{ m.content is callable }}",
        "{% if loop.changed(m.content) %}{{ m.content }}{% endif %}",
        "{{ [m.content] | tojson | length > 1 }}",
        "{{ [m.content] | batch(2) | list | length }}",
        "{{ m.content | urlize }}",
        "{{ 'x' | safe + m.content }}",
        "{{ m | attr('get') }}",
        "{{ joiner(m.content)() }}",
        "{{ -m.content }}",
        "{{ 'x' % m.content }}",
        "{{ m.content() }}",
    ],
)
def test_in_doubt_there_is_no_frame(source: str) -> None:
    one = endings(source, frames=True)
    refused = isinstance(ending(one, "a"), tuple) and not isinstance(ending(one, "a"), Ending)
    assert frames(one) == ([] if refused else [None])


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "attribute": lambda it: it.strip,
    "no attribute": lambda it: hasattr(it, "__html__"),
    "kind": lambda it: isinstance(it, str),
    "text": str,
    "code": repr,
    "in a text": lambda it: f"{it}",
    "in a text, wide": lambda it: "{:>3}".format(it),  # noqa: UP032
    "as it is in a list": lambda it: str([it]),
    "old form": lambda it: "%s" % (it,),  # noqa: UP031
    "bytes": bytes,
    "hash": hash,
    "key": lambda it: {it: 1},
    "equal": lambda it: it == "a",
    "equal to it": lambda it: "a" == it,  # noqa: SIM300
    "equal in a list": lambda it: [it] == ["a"],
    "not equal": lambda it: it != "a",
    "less": lambda it: it < "a",
    "at most": lambda it: it <= "a",
    "more": lambda it: it > "a",
    "at least": lambda it: it >= "a",
    "sorted": lambda it: sorted([it, "a"]),
    "length": len,
    "hint": lambda it: it.__length_hint__(),
    "letters": list,
    "backwards": reversed,
    "has": lambda it: "a" in it,
    "is in": lambda it: it in ["a"],
    "letter": lambda it: it[0],
    "slice": lambda it: it[1:],
    "index": lambda it: "abc"[it],
    "int": int,
    "float": float,
    "complex": complex,
    "rounded": round,
    "minus": lambda it: -it,
    "plus": lambda it: it + "a",
    "plus it": lambda it: "a" + it,
    "times": lambda it: it * 2,
    "times it": lambda it: 2 * it,
    "modulo": lambda it: it % 1,
    "translated": lambda it: "a".translate(it),
    "escaped": escape,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_noted(name: str) -> None:
    looked: list[bool] = []
    with pytest.raises(LookedError):
        QUESTIONS[name](Opaque((0,), looked))
    assert set(looked) == {True}


TAKING: dict[str, Callable[[Any], object]] = {
    "join": lambda it: "a".join([it]),
    "start": lambda it: "a".startswith(it),
    "replace": lambda it: "a".replace("z", it),
    "split": lambda it: "a".split(it),
    "center": lambda it: "a".center(3, it),
    "encode": lambda it: "a".encode(it),
    "count": lambda it: "a".count(it),
}


@pytest.mark.parametrize("name", TAKING)
def test_what_is_written_in_c_takes_none(name: str) -> None:
    with pytest.raises(TypeError):
        TAKING[name](Opaque((0,), []))


def test_none_is_written_as_json() -> None:
    for value in (Opaque((0,), []), [Opaque((0,), [])], {"a": (1, Opaque((0,), []))}):
        with pytest.raises(TypeError):
            orjson.dumps(value)


def test_it_is_true_and_pasted() -> None:
    it = Opaque((0,), [])
    assert it
    assert pieces_of(pasted(["a", "", it, 1, it, "b", "", None])) == ("a", 0, "1", 0, "bNone")
    assert pasted(["a", 1]) == "a1"
    assert pieces_of("") == ()


def test_a_date_is_that_of_each_text() -> None:
    days = count()
    template = ChatTemplate(
        "{% for m in messages %}{{ m.content }}<|im_end|>{{ strftime_now('%c') }}{% endfor %}",
        {},
        clock=lambda: datetime(2020, 2, 1) + timedelta(days=next(days)),
    )
    one = Endings(template, ["<|im_end|>"], {})
    assert len({ending(one, "a").text for _ in range(3)}) == 3


def test_what_changed_is_not_kept() -> None:
    plain, framed = (
        endings("{% if loop.changed(m.content) %}{{ m.content }}{% endif %}", frames=each) for each in (False, True)
    )
    for contents in ("ab", "aa", "ab", "aa"):
        assert ending(framed, *contents) == ending(plain, *contents)


PASTING = [
    "{{ m.content }}",
    "{{ 'x' ~ m.content ~ 1 ~ none }}",
    "{{ 'x' + m.content + 'y' }}",
    "{{ m['content'] or '' }}{{ m.get('content') }}",
    "{{ m.content if m.content is string and m.content is not none and m.content is not mapping }}",
    "{{ m.content | default('') | string }}{{ m.nothing | default('', true) }}",
    "{% if m.content is defined and m.content and not not m.content %}{{ m.content }}{% endif %}",
    "{% set t = m.content %}{{ t }}",
    "{% set t %}<{{ m.content }}>{% endset %}{{ t }}",
    "{% set t %}{{ m.content }}{% endset %}{{ t + 'x' }}",
    "{% macro w(x) %}<{{ x }}>{% endmacro %}{{ w(m.content) }}{{ w(x=m.content) }}",
    "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}{{ m.content }}{% endcall %}",
    "{% generation %}{{ m.content }}{% endgeneration %}",
    "{% set ns = namespace(t='') %}{% set ns.t = ns.t ~ m.content %}{{ ns.t }}",
    "{% for key, value in m.items() if key == 'content' %}{{ value }}{% endfor %}",
    "{% for key, value in m | items if key != 'role' %}{{ value }}{% endfor %}",
    "{{ (messages | selectattr('role', 'equalto', 'tool') | list | first).content }}",
    "{% for c in messages[2:] | map(attribute='content') %}{{ loop.previtem if loop.last }}{{ c }}{% endfor %}",
    "{{ {'a': m.content}.a }}{{ [m.content][0] }}{{ [1, m.content] | last }}",
    "{{ m.content }}{{ 1 if strftime_now is defined }}{{ tools | tojson }}",
    "{{ m.content }}{{ 1 if flag is sameas true }}{{ messages | length }}{{ m.tool_call_id }}",
    "{{ m.content }}{{ messages[-1] == m }}{{ m in messages }}",
]


@pytest.mark.parametrize("source", PASTING)
def test_what_a_template_pastes_is_filled_in(source: str) -> None:
    plain, framed = (endings(source, frames=each) for each in (False, True))
    for contents in (["a"], [" <|im_end|> {0} %s"], ["é\n", "b"], ["", "b"], ["a", "a"]):
        for _ in range(2):
            assert ending(framed, *contents) == ending(plain, *contents)
    assert frames(framed)[0] is not None
