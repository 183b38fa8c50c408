"""Claims about the checks of IFTrain's kinds: where README.md names no difference they agree with those published.

Needs `verifiable_instructions`, from which NeMo-Gym's `instruction_following` has them: PADDOCK_VERIFIABLE_INSTRUCTIONS
is a checkout of its repository, PADDOCK_IFEVAL_PYTHON an interpreter with langdetect, nltk and immutabledict.
"""

import asyncio
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.gym_rewards import interpreter

from paddock.resources_servers.instructions.iftrain import IFTRAIN_KINDS
from paddock.types import JsonObject

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "support" / "ifeval_checks.py"
VARIABLE = "PADDOCK_VERIFIABLE_INSTRUCTIONS"
CASES_OF_KIND = 200
WORDS = ("lantern", "Meadow", "copper", "the harbour", "level", "Anna", "was", "cold", "LANTERN", "a", "big", "old")
MARKS = (".", "!", ",", "?", "\n\n", "\n***\n", "***", "", "", "", "")
PROMPT = "Tell me of the cold harbour."
PHRASE = "the old big lantern"
ARGUMENTS: dict[str, Callable[[random.Random], JsonObject]] = {
    "copy:repeat_phrase": lambda chance: {"phrase": PHRASE, "small_n": chance.randint(1, 2)},
    "copy:copy": lambda _: {"prompt_to_repeat": PROMPT},
    "copy:copying_simple": lambda _: {"prompt_to_repeat": PROMPT},
    "copy:copying_multiple": lambda chance: {"prompt_to_repeat": PROMPT, "N": chance.randint(1, 3)},
    "new:copy_span_idx": lambda _: {"prompt_to_repeat": PROMPT, "n_start": 5, "n_end": 10},
    "detectable_format:square_brackets": lambda _: {},
    "detectable_format:bigram_wrapping": lambda _: {},
    "keywords:word_once": lambda chance: {"keyword": chance.choice(WORDS)},
    "keywords:word_count_different_numbers": lambda chance: {
        "keyword": chance.choice(WORDS),
        "frequency": chance.randint(1, 3),
        "relation": chance.choice(("less than", "at least")),
    },
    "keywords:exclude_word_harder": lambda chance: {"keyword": chance.choice(WORDS)},
    "paragraphs:paragraphs": lambda _: {},
    "paragraphs:paragraphs2": lambda _: {},
    "last_word:last_word_answer": lambda chance: {"last_word": chance.choice(("cold", "lantern", "old"))},
    "punctuation:punctuation_dot": lambda _: {},
    "punctuation:punctuation_exclamation": lambda _: {},
    "count:lowercase_counting": lambda chance: {"N": chance.randint(1, 6)},
    "count:count_increment_word": lambda _: {"keyword1": "big", "keyword2": "old"},
    "letters:letter_counting": lambda chance: {"N": chance.randint(1, 60), "relation": "at least"},
    "letters:letter_counting2": lambda chance: {"letter": "e", "let_frequency": 4, "let_relation": "at least"},
}
STRICTER = ("copy:repeat_phrase", "keywords:exclude_word_harder")
"""An answer that ours takes, theirs takes."""


def text_of(chance: random.Random, kind: str) -> str:
    words = [f"{chance.choice(WORDS)}{chance.choice(MARKS)}" for _ in range(chance.randint(1, 12))]
    text = " ".join(words)
    match kind:
        case "last_word:last_word_answer":
            return text.replace("***", "")
        case "copy:copy" | "copy:copying_simple" | "copy:copying_multiple":
            copies = [chance.choice((PROMPT, PROMPT.upper(), f" {PROMPT}\n")) for _ in range(chance.randint(1, 3))]
            return chance.choice(("******", "***\n***", "\n")).join(copies)
        case "new:copy_span_idx":
            return chance.choice((PROMPT[5:10], PROMPT[5:10].upper(), PROMPT[5:11] + "x", PROMPT))
        case "copy:repeat_phrase":
            return " and\n ".join(
                chance.choice((PHRASE, "the new big lantern", "the old red lantern", "the new red lantern"))
                for _ in range(chance.randint(1, 3))
            )
        case "detectable_format:square_brackets":
            return " ".join(chance.choice((f"[{word}]", f"[{word}]", "[two words]", word[:4])) for word in words[:3])
        case "detectable_format:bigram_wrapping":
            return " ".join(chance.choice(("<<a b>>", "<<a b>>", "<<a>> b", "<< a b >>")) for _ in words[:3])
    return text


async def test_the_checks_agree_with_those_published() -> None:
    python = interpreter("PADDOCK_IFEVAL_PYTHON", "langdetect, nltk and immutabledict")
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no checkout of verifiable_instructions")
    chance = random.Random(7)
    made = [
        (kind, give(chance), text_of(chance, kind)) for kind, give in ARGUMENTS.items() for _ in range(CASES_OF_KIND)
    ]
    ran = await asyncio.to_thread(
        subprocess.run,
        [python, str(PROGRAM), "verifiable_instructions"],
        input=json.dumps(made).encode(),
        env={**os.environ, "PYTHONPATH": folder},
        check=True,
        capture_output=True,
    )
    theirs: list[Any] = json.loads(ran.stdout)
    followed = dict.fromkeys(ARGUMENTS, 0)
    for (kind, arguments, text), said in zip(made, theirs, strict=True):
        known = IFTRAIN_KINDS[kind]
        ours = known.follows(text, known.arguments.model_validate(arguments))
        assert ours == said or (kind in STRICTER and not ours), (kind, arguments, text)
        followed[kind] += ours
    assert all(10 < count < CASES_OF_KIND - 10 for count in followed.values()), followed
