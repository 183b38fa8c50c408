"""Claims about which rollouts have ids of the policy's vocabulary: by real parsers' records of what ids say."""

from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.server.exact.parsers.formats import answer_parsers
from paddock.testing.vocabularies import small_vocabulary
from paddock.training.core.testing import rollout, turn
from paddock.training.sft.vocabulary_check import VocabularyCheck
from paddock.types import JsonObject, Rollout

KNOWN = small_vocabulary("chatml")
CALL = '<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>'
TOOLS: list[JsonObject] = [{"type": "function", "name": "run", "parameters": {"type": "object"}}]


def answered(text: str, *, shift: int = 0) -> Rollout:
    """A rollout of one turn that sampled the text, recorded as the parser of `hermes` reads it."""
    parser = answer_parsers(KNOWN, tool_parser="hermes", reasoning_parser=None)(TOOLS, [])
    ids = KNOWN.encode(text)
    message: Any = parser.whole(text, ids)
    output: list[JsonObject] = [
        {"type": "message", "content": [{"type": "output_text", "text": message["content"]}]},
        *({"type": "function_call", **call["function"]} for call in message.get("tool_calls", ())),
    ]
    sampled = [(one + shift) % len(KNOWN) for one in ids]
    own = turn("a", sampled_ids=sampled, log_probs=[-1.0] * len(sampled), output=output)
    return rollout(turns=[own])


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to run here.",
        f"First I look. {CALL}",
        f"First I look. {CALL} And then once more. {CALL} Then I see.",
        f"{CALL}\nAfter it.",
        CALL,
    ],
)
def test_what_the_policys_own_ids_say_is_taken_and_what_others_say_is_not(text: str) -> None:
    check = VocabularyCheck(KNOWN)
    check.require(Path("r.jsonl"), answered(text))
    with pytest.raises(ConfigError, match="ids are of another vocabulary"):
        check.require(Path("r.jsonl"), answered(text, shift=1))
