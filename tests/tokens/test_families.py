"""Prompts over templates that end answers as published families do: whatever stop was sampled and whoever speaks next,
what stands between two answers is the template's own text."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import NoReturn

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tests.support.conversations import TOOLS, RandomConversation, conversation
from tests.support.families import FAMILIES, Family

from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter
from paddock.types import JsonObject

USER: JsonObject = {"role": "user", "content": "NUDGE"}
SYSTEM: JsonObject = {"role": "system", "content": "RULE"}
RESULT: JsonObject = {"role": "tool", "tool_call_id": "abcdefghi", "content": "SEEN"}
CALL: JsonObject = {"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": '{"path": "x"}'}}


def _refuse(words: str) -> NoReturn:
    raise ValueError(words)


def _in_form(message: JsonObject, family: Family) -> JsonObject:
    given = dict(message)
    if given["role"] in family.parts:
        given["content"] = [{"type": "text", "text": given["content"]}]
    if "tool_calls" in given and family.null_content and not given["content"]:
        given["content"] = None
    if "tool_calls" in given and not family.argument_strings:
        functions = [
            {**call["function"], "arguments": json.loads(call["function"]["arguments"])} for call in given["tool_calls"]
        ]
        calls = zip(given["tool_calls"], functions, strict=True)
        given["tool_calls"] = [{**call, "function": function} for call, function in calls]
    return given


class Spoken:
    """A family's template at work."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.vocabulary = small_vocabulary(family.marks)
        self.prompter = Prompter(ChatTemplate(family.source, self.vocabulary.special_texts), self.vocabulary)
        plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        plain.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
        plain.globals["raise_exception"] = _refuse
        self.template = plain.from_string(family.source)

    def text(self, messages: Sequence[JsonObject], tools: list[JsonObject] | None, *, prompt: bool = True) -> str:
        """The template's own, by nothing but Jinja, of messages in the form that it takes."""
        given = [_in_form(message, self.family) for message in messages]
        variables = {**self.vocabulary.special_texts, "tools": tools, "add_generation_prompt": prompt}
        return self.template.render(messages=given, **variables)

    def answer_to(self, history: Sequence[JsonObject], answer: JsonObject, tools: list[JsonObject] | None) -> str:
        """All up to the end of what an answer says."""
        whole = self.text([*history, answer], tools, prompt=False)
        last = next(each for each in self.family.last if whole.endswith(each))
        return whole.removesuffix(last)

    def expected(self, rest: str, stop: str | None) -> str:
        """What is to come behind a sampled stop, where the template goes on with `rest`."""
        if stop is not None and rest.startswith(stop):
            return rest.removeprefix(stop)
        if stop is None or stop in self.family.openers:
            return rest
        return rest.removeprefix(next((end for end in self.family.ends if rest.startswith(end)), ""))

    def appended(
        self,
        stop: str | None,
        follows: Sequence[JsonObject],
        tools: list[JsonObject] | None,
        names: Mapping[str, str] | None = None,
    ) -> str:
        last = [] if stop is None else [self.vocabulary.stops[stop]]
        return self.vocabulary.decode(self.prompter.after(last, follows, tools, names=names or {}))


@pytest.fixture(scope="module", params=FAMILIES)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    return Spoken(FAMILIES[request.param])


@pytest.mark.parametrize("follows", [[USER], [SYSTEM, USER], [RESULT], [RESULT, USER], []], ids=str)
def test_each_sampled_stop_is_followed_by_the_templates_own_text(spoken: Spoken, follows: list[JsonObject]) -> None:
    """Calls that nobody answers are none."""
    calls = {"tool_calls": [CALL]} if RESULT in follows else {}
    answer: JsonObject = {"role": "assistant", "content": "" if calls else "So.", **calls}
    before = spoken.answer_to([USER], answer, TOOLS)
    whole = spoken.text([USER, answer, *follows], TOOLS)
    assert whole.startswith(before)
    rest = whole.removeprefix(before)
    for stop in (None, *spoken.vocabulary.stops):
        assert spoken.appended(stop, follows, TOOLS) == spoken.expected(rest, stop)


def test_a_nudge_behind_the_mark_of_a_result_stands_behind_a_users_mark() -> None:
    spoken = Spoken(FAMILIES["role_marks"])
    nudged = "<|user|>\nNUDGE<|assistant|>\n"
    assert spoken.appended("<|observation|>", [USER], None) == nudged
    assert spoken.appended("<|endoftext|>", [USER], None) == nudged
    assert spoken.appended("<|user|>", [USER], None) == nudged.removeprefix("<|user|>")
    assert spoken.appended("<|user|>", [RESULT], TOOLS).startswith("<|observation|>\n<tool_response>\nSEEN")
    assert spoken.appended("<|observation|>", [RESULT], TOOLS).startswith("\n<tool_response>\nSEEN")
    assert spoken.appended("<|user|>", [SYSTEM, USER], None) == "<|system|>\nRULE" + nudged
    assert spoken.appended("<|user|>", [], None) == "<|assistant|>\n"


def test_a_stop_that_history_is_never_written_with_stands_for_the_end_that_it_is() -> None:
    spoken = Spoken(FAMILIES["channels"])
    nudged = "<|start|>user<|message|>NUDGE<|end|><|start|>assistant"
    assert {spoken.appended(stop, [USER], None) for stop in spoken.vocabulary.stops} == {nudged}
    assert spoken.appended(None, [USER], None) == "<|end|>" + nudged


def test_a_developer_is_never_lost(spoken: Spoken) -> None:
    vocabulary, prompter, template = spoken.vocabulary, spoken.prompter, spoken.family.source
    rule: JsonObject = {"role": "developer", "content": "DEVTEXT"}
    assert "DEVTEXT" in vocabulary.decode(prompter.whole([rule, USER], TOOLS))
    assert "DEVTEXT" in vocabulary.decode(prompter.whole([SYSTEM, USER, rule], TOOLS)) or "developer" in template
    if not prompter.knows_developer:
        as_system = {**rule, "role": "system"}
        assert prompter.after([], [rule, USER], TOOLS) == prompter.after([], [as_system, USER], TOOLS)


def _for(family: Family, told: RandomConversation) -> RandomConversation:
    if not family.silent_calls:
        return told
    steps = [
        step._replace(answer={**step.answer, "content": ""}) if "tool_calls" in step.answer else step
        for step in told.steps
    ]
    return told._replace(steps=steps)


def test_random_conversations_read_as_the_template_writes_them(spoken: Spoken) -> None:
    random = Random(spoken.family.source)
    family, vocabulary = spoken.family, spoken.vocabulary
    for _ in range(60):
        told = _for(family, conversation(random, one_call=family.one_call, reasoning=False))
        tools = TOOLS if family.needs_tools else told.tools
        history = list(told.start)
        assert vocabulary.decode(spoken.prompter.whole(history, tools)) == spoken.text(history, tools)
        for step in told.steps:
            before = spoken.answer_to(history, step.answer, tools)
            whole = spoken.text([*history, step.answer, *step.follows], tools)
            assert whole.startswith(before)
            stop = random.choice([None, *vocabulary.stops])
            names = {call["id"]: call["function"]["name"] for call in step.answer.get("tool_calls", [])}
            new = spoken.appended(stop, step.follows, tools, names)
            assert new == spoken.expected(whole.removeprefix(before), stop)
            history += [step.answer, *step.follows]
