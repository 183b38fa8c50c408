"""Claims about the policy and its parser: calls are read as they were written, and uncommon ids are uncommon."""

import json

import pytest

from paddock.conformance.harnesses.tools import ShownTools
from paddock.errors import BugError
from paddock.lab.fidelity import Language, PolicyCall, PolicyTurn
from paddock.lab.fidelity.policy import FidelityPolicy, RawParser, answer_stops, answer_text, spell
from paddock.lab.fidelity.scenarios import Spelling

BASH = {"type": "function", "name": "bash", "parameters": {"properties": {"command": {"type": "string"}}}}
FACE = ShownTools([BASH, {"type": "custom", "name": "patch"}])


@pytest.mark.parametrize("spelling", ["plain", "spaced", "compact", "escaped", "twice", "broken"])
def test_arguments_are_read_as_they_were_written(spelling: Spelling) -> None:
    turn = PolicyTurn((PolicyCall(spelling=spelling, line="grep 'é'"),), thought="Hm.", text="Look:")
    message = RawParser().whole(answer_text(turn, FACE, 3), ())
    assert message["reasoning_content"] == "Hm."
    assert message["content"] == "Look:"
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "bash"
    assert call["function"]["arguments"] == spell({"command": "grep 'é' notes-3.txt"}, spelling)


def test_spellings_say_the_same_but_the_broken_one() -> None:
    arguments = {"command": "ls é"}
    texts: list[Spelling] = ["plain", "spaced", "compact", "escaped", "twice"]
    assert len({spell(arguments, one) for one in texts}) == 5
    assert all(json.loads(spell(arguments, one)) == arguments for one in texts)
    with pytest.raises(json.JSONDecodeError):
        json.loads(spell(arguments, "broken"))


def test_a_patch_is_of_the_custom_tool_and_an_unknown_call_of_none() -> None:
    said = RawParser().whole(answer_text(PolicyTurn((PolicyCall("patch"), PolicyCall("unknown"))), FACE, 0), ())
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["patch", "no_such_tool"]


def test_a_block_without_an_end_is_text() -> None:
    text = '<tool_call>\n{"name": "bash", "arguments": {"comm'
    assert RawParser().whole(text, ()) == {"content": text, "tool_calls": []}


def test_uncommon_ids_spell_the_same_text(thinking: Language) -> None:
    policy = FidelityPolicy(thinking.policy_vocabulary, answer_stops(thinking.prompter, thinking.policy_vocabulary))
    text = answer_text(PolicyTurn(thought="I think that it is so.", uncommon=True), FACE, 0)
    policy.say(text)
    common = policy([])
    policy.say(text, uncommon=True)
    uncommon = policy([])
    decode = thinking.vocabulary.decode
    assert decode(common.ids) == decode(uncommon.ids) == text + "<|im_end|>"
    assert len(uncommon.ids) > len(common.ids)


def test_a_policy_that_was_told_nothing_says_so(thinking: Language) -> None:
    with pytest.raises(BugError, match="nobody scripted"):
        FidelityPolicy(thinking.policy_vocabulary, answer_stops(thinking.prompter, thinking.policy_vocabulary))([])
