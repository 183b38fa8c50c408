"""The template for models that think: nothing that was said is ever written otherwise later."""

from importlib.resources import files
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.support.conversations import TOOLS, conversation
from tests.support.template_replay import TemplateReplay

from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, PromptTraits
from paddock.types import JsonObject

SOURCE = files("paddock.server.exact").joinpath("templates/thinking.jinja").read_text("utf-8")
TEMPLATE = ChatTemplate(SOURCE, {})
USER: JsonObject = {"role": "user", "content": "Hi."}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"z": 1,"a": "é"}'}}
THOUGHT: JsonObject = {"role": "assistant", "reasoning": "hm", "content": "Well.", "tool_calls": [CALL, CALL]}
RESULTS: list[JsonObject] = [{"role": "tool", "tool_call_id": "a", "content": each} for each in ("one", "two")]


def rendered(messages: list[JsonObject], *, tools: Any = None, prompt: bool = False, **arguments: Any) -> str:
    return TEMPLATE.render(messages, tools=tools, generation_prompt=prompt, arguments=arguments)


def test_a_conversation_reads_so() -> None:
    messages = [{"role": "system", "content": "Be brief."}, USER, THOUGHT, *RESULTS, USER]
    text = rendered(messages, tools=TOOLS[:1], prompt=True)
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '\n<tools>\n{"type": "function", "function": {"name": "look", "description": "look — über <files>"' in (
        text.replace(":<tools>", ":\n<tools>")
    )
    assert text.endswith(
        "<|im_start|>user\nHi.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nhm\n</think>\n\nWell.\n"
        '<tool_call>\n{"name": "look", "arguments": {"z": 1, "a": "é"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "look", "arguments": {"z": 1, "a": "é"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\none\n</tool_response><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nHi.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"enable_thinking": False}, {"enable_thinking": True}])
def test_what_was_written_is_the_start_of_what_is_written_later(arguments: JsonObject) -> None:
    random = Random(3)
    for _ in range(1000 if not arguments else 200):
        dialogue = conversation(random)
        messages = dialogue.messages
        texts = [
            rendered(messages[:end], tools=dialogue.tools, **arguments)
            for end in range(len(dialogue.start), len(messages) + 1)
        ]
        for before, after in pairwise(texts):
            assert after.startswith(before)


@pytest.mark.parametrize("arguments", [{}, {"enable_thinking": True}])
def test_an_answer_follows_its_prompt(arguments: JsonObject) -> None:
    random = Random(4)
    for _ in range(200):
        dialogue = conversation(random)
        prompt = rendered(dialogue.start, tools=dialogue.tools, prompt=True, **arguments)
        answered = [*dialogue.start, dialogue.steps[0].answer]
        assert rendered(answered, tools=dialogue.tools, **arguments).startswith(prompt)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, {"enable_thinking": False}])
def test_a_record_reads_as_the_whole_conversation(arguments: JsonObject) -> None:
    replayed, random = TemplateReplay(SOURCE, "chatml", arguments), Random(6)
    for _ in range(200):
        replayed.check(conversation(random, reasoning=not arguments), random)


def test_without_thinking_an_answer_starts_with_an_empty_thought_now_and_later() -> None:
    prompt = rendered([USER], prompt=True, enable_thinking=False)
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    answered = [USER, {"role": "assistant", "content": "\nYes."}, USER]
    assert rendered(answered, enable_thinking=False).startswith(prompt + "Yes.<|im_end|>\n")


def test_older_thoughts_are_left_out_on_demand() -> None:
    messages = [USER, {**THOUGHT, "reasoning": "old"}, *RESULTS, USER, {**THOUGHT, "reasoning": "new"}, *RESULTS]
    whole = rendered(messages)
    short = rendered(messages, truncate_history_thinking=True)
    assert "old" in whole
    assert "old" not in short
    assert "<think>\nnew\n</think>" in short
    assert short == whole.replace("<think>\nold\n</think>\n\n", "")


def test_arguments_that_are_no_object_are_written_as_they_were() -> None:
    broken = {**CALL, "function": {"name": "look", "arguments": '{"z": '}}
    assert '"arguments": {"z": }\n</tool_call>' in rendered([USER, {**THOUGHT, "tool_calls": [broken]}])


def test_its_traits() -> None:
    vocabulary = small_vocabulary()
    template = ChatTemplate(SOURCE, vocabulary.special_texts)
    kept = PromptTraits(reformats_arguments=("compact", "escaped"))
    assert Prompter(template, vocabulary).traits == kept
    assert Prompter(template, vocabulary, arguments={"enable_thinking": False}).traits == kept
    truncated = Prompter(template, vocabulary, arguments={"truncate_history_thinking": True}).traits
    assert truncated.strips_reasoning == ("after_user",)
    assert truncated.rewrites_past == ("user_after_reasoning",)
