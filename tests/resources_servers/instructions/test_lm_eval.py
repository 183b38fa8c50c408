"""Claims about the checks of instructions: on texts of every form they agree with IFEval's, as lm-eval has them."""

import asyncio
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gym_rewards import interpreter

from paddock.resources_servers.instructions.ifeval import IFEVAL_KINDS, language_of
from paddock.types import JsonObject

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "support" / "ifeval_checks.py"
CASES_OF_KIND = 100
PIECES = (
    *("The harbour was cold.", "Dr. Smith came at 3.15 p.m. today!", "Is it so?", "We paid $4.50 to Foo Inc. for it."),
    *("COPPER AND LANTERN", "a meadow, a thistle", "See example.com now.", "Wait... what?", 'He said "yes."'),
    *(
        "* one point",
        "- another point",
        "**bold words**",
        "*thin words*",
        "[name]",
        "[street] and [town]",
        "<<A title>>",
    ),
    *("Section 1", "SECTION 2", "Section3", "P.S. write", "p.p.s. write", "My answer is yes.", "***", "******", "\n\n"),
    *('{"a": 1}', "```json\n[1]\n```", "Any other questions?", "Der Hund schläft heute im Garten des Nachbarn.", ""),
    *("lantern lantern", "Lanterns", "zzz", "meadow's end", "\n", '"', "<<>>", "[]", "[", "**", "* ", "**  **", "I"),
)
WORDS = ("lantern", "meadow", "copper", "harbour")
RELATIONS = ("less than", "at least")
ARGUMENTS: dict[str, Callable[[random.Random], JsonObject]] = {
    "keywords:existence": lambda chance: {"keywords": chance.sample(WORDS, 2)},
    "keywords:frequency": lambda chance: {
        "keyword": chance.choice(WORDS),
        "frequency": chance.randint(1, 3),
        "relation": chance.choice(RELATIONS),
    },
    "keywords:forbidden_words": lambda chance: {"forbidden_words": chance.sample(WORDS, 2)},
    "keywords:letter_frequency": lambda chance: {
        "letter": chance.choice("aez"),
        "let_frequency": chance.randint(1, 12),
        "let_relation": chance.choice(RELATIONS),
    },
    "language:response_language": lambda chance: {"language": chance.choice(("en", "de"))},
    "length_constraints:number_sentences": lambda chance: {
        "num_sentences": chance.randint(1, 8),
        "relation": chance.choice(RELATIONS),
    },
    "length_constraints:number_paragraphs": lambda chance: {"num_paragraphs": chance.randint(1, 3)},
    "length_constraints:number_words": lambda chance: {
        "num_words": chance.randint(3, 30),
        "relation": chance.choice(RELATIONS),
    },
    "length_constraints:nth_paragraph_first_word": lambda chance: {
        "num_paragraphs": chance.randint(1, 3),
        "nth_paragraph": 1,
        "first_word": chance.choice(("The", "is", "COPPER", "a")),
    },
    "detectable_content:number_placeholders": lambda chance: {"num_placeholders": chance.randint(1, 3)},
    "detectable_content:postscript": lambda chance: {"postscript_marker": chance.choice(("P.S.", "P.P.S"))},
    "detectable_format:number_bullet_lists": lambda chance: {"num_bullets": chance.randint(1, 3)},
    "detectable_format:number_highlighted_sections": lambda chance: {"num_highlights": chance.randint(1, 3)},
    "detectable_format:multiple_sections": lambda chance: {
        "section_spliter": chance.choice(("Section", "SECTION")),
        "num_sections": chance.randint(1, 3),
    },
    "combination:repeat_prompt": lambda chance: {"prompt_to_repeat": chance.choice(PIECES[:6])},
    "startend:end_checker": lambda chance: {"end_phrase": chance.choice(("Any other questions?", "zzz"))},
    "change_case:capital_word_frequency": lambda chance: {
        "capital_frequency": chance.randint(1, 4),
        "capital_relation": chance.choice(RELATIONS),
    },
}


def text_of(chance: random.Random, kind: str) -> str:
    text = chance.choice((" ", " ", "\n", "\n\n")).join(chance.choices(PIECES, k=chance.randint(1, 9)))
    match kind:
        case "change_case:english_capital" | "change_case:english_lowercase":
            text = " ".join(chance.choices([one for one in PIECES if one[:1].isalpha()], k=6))
            return chance.choice((text, text.upper(), text.lower()))
        case "startend:quotation" if chance.random() < 0.5:
            return f' "{text}"\n'
        case "detectable_format:json_format" if chance.random() < 0.7:
            inner = chance.choice(('{"a": [1]}', "[1, 2", "3", '"x"', "{'a': 1}"))
            return chance.choice((inner, f"```json\n{inner}\n```", f"```\n{inner}```", f"Here: {inner}"))
    return text


def no_arguments(_: random.Random) -> JsonObject:
    return {}


def cases() -> Iterator[tuple[str, JsonObject, str]]:
    chance = random.Random(5)
    for kind in IFEVAL_KINDS:
        for _ in range(CASES_OF_KIND):
            yield kind, ARGUMENTS.get(kind, no_arguments)(chance), text_of(chance, kind)


async def test_the_checks_agree_with_lm_evals() -> None:
    python = interpreter("PADDOCK_IFEVAL_PYTHON", "lm-eval 0.4.13, langdetect, nltk and immutabledict")
    made = list(cases())
    ran = await asyncio.to_thread(
        subprocess.run,
        [python, str(PROGRAM), "lm_eval.tasks.ifeval"],
        input=json.dumps(made).encode(),
        check=True,
        capture_output=True,
    )
    theirs: list[Any] = json.loads(ran.stdout)
    for (kind, arguments, text), said in zip(made, theirs, strict=True):
        known = IFEVAL_KINDS[kind]
        ours = known.follows(text, known.arguments.model_validate(arguments))
        # Theirs takes a text without letters for one in any language.
        unknown = kind == "language:response_language" and language_of(text) is None
        assert ours == (said and not unknown), (kind, arguments, text)
    assert 300 < sum(map(bool, theirs)) < len(made) - 300
