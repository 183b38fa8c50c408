"""The template of the Qwen3 recipes: an answer begins inside a thought, and every thought is kept."""

from importlib.resources import files
from itertools import pairwise
from random import Random
from typing import Any

from tests.support.conversations import TOOLS, conversation
from tests.support.template_replay import TemplateReplay

from paddock.tokens import ChatTemplate
from paddock.types import JsonObject

SOURCE = files("paddock.server.exact").joinpath("templates/qwen3_thinking.jinja").read_text("utf-8")
TEMPLATE = ChatTemplate(SOURCE, {})
USER: JsonObject = {"role": "user", "content": "Hi."}
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"z": 1}'}}
THOUGHT: JsonObject = {"role": "assistant", "reasoning": "hm", "content": "Well.", "tool_calls": [CALL, CALL]}
RESULTS: list[JsonObject] = [{"role": "tool", "tool_call_id": "a", "content": each} for each in ("one", "two")]


def rendered(messages: list[JsonObject], *, tools: Any = None, prompt: bool = False, **arguments: Any) -> str:
    return TEMPLATE.render(messages, tools=tools, generation_prompt=prompt, arguments=arguments)


def test_a_conversation_reads_so() -> None:
    text = rendered([USER, THOUGHT, *RESULTS, USER], tools=TOOLS[:1], prompt=True)
    assert text.startswith("<|im_start|>system\n# Tools\n")
    assert text.endswith(
        "<|im_start|>user\nHi.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nhm\n</think>\n\nWell.\n"
        '<tool_call>\n{"name": "look", "arguments": {"z": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "look", "arguments": {"z": 1}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
        "<|im_start|>user\nHi.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_arguments_of_the_template_change_nothing() -> None:
    messages = [USER, THOUGHT, *RESULTS, USER, THOUGHT]
    said = {"enable_thinking": False, "truncate_history_thinking": True}
    assert rendered(messages, prompt=True, **said) == rendered(messages, prompt=True)


def test_a_thought_in_the_text_is_told_as_one() -> None:
    whole = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nWell."}
    begun = {"role": "assistant", "content": "hm\n</think>\n\nWell."}
    apart = {"role": "assistant", "reasoning": "hm", "content": "Well."}
    assert rendered([USER, whole]) == rendered([USER, begun]) == rendered([USER, apart])
    assert "<think>" not in rendered([USER, {"role": "assistant", "content": "Well."}])


def test_an_answer_that_was_thought_about_follows_its_prompt() -> None:
    random = Random(4)
    for _ in range(50):
        dialogue = conversation(random)
        answer = {**dialogue.steps[0].answer, "reasoning": "so"}
        prompt = rendered(dialogue.start, tools=dialogue.tools, prompt=True)
        assert rendered([*dialogue.start, answer], tools=dialogue.tools).startswith(prompt)


def test_what_was_written_is_the_start_of_what_is_written_later() -> None:
    """But between two results of tools, which are one message."""
    random = Random(3)
    for _ in range(60):
        dialogue = conversation(random)
        ends = range(len(dialogue.start), len(dialogue.messages) + 1)
        whole = [end for end in ends if "tool" not in {one["role"] for one in dialogue.messages[end : end + 1]}]
        texts = [rendered(dialogue.messages[:end], tools=dialogue.tools) for end in whole]
        assert all(after.startswith(before) for before, after in pairwise(texts))


def test_a_record_reads_as_the_whole_conversation() -> None:
    replayed, random = TemplateReplay(SOURCE, "chatml", {}), Random(6)
    for _ in range(50):
        dialogue = conversation(random)
        steps = [step._replace(answer={**step.answer, "reasoning": "so"}) for step in dialogue.steps]
        replayed.check(dialogue._replace(steps=steps), random)
