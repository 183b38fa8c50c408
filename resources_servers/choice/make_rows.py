"""Makes multiple-choice rows of arithmetic and words.

Usage   python -m paddock.resources_servers.choice.make_rows --count N --seed S
Output  JSONL, the same for the same arguments. All rules by which an answer can be read come in turn.
"""

import random
from collections.abc import Callable, Sequence

from paddock.collect.row_command import print_rows
from paddock.types import JsonObject

LETTERS = "ABCDEFGH"
WORDS = ("harbour", "lantern", "orchard", "pebble", "thistle", "saddle", "window", "copper", "meadow", "anchor")
FORMS: Sequence[tuple[str, JsonObject]] = (
    ("End your answer with \\boxed{LETTER}.", {"grading_mode": "strict_single_letter_boxed"}),
    ("Put the letter, or the option's text, into \\boxed{}.", {"grading_mode": "lenient_boxed"}),
    ("End with a line `Answer: LETTER`.", {"grading_mode": "lenient_answer_colon"}),
    ("End with a line `**Answer:** LETTER`.", {"grading_mode": "lenient_answer_colon_md"}),
    (
        "Give the letter inside <choice></choice>.",
        {"template_metadata": {"output_regex": r"<choice>\s*([A-Z])\s*</choice>"}},
    ),
)


def make_rows(count: int, seed: int) -> list[JsonObject]:
    """Make rows; equal arguments give equal ones."""
    rng = random.Random(seed)
    return [_row(rng, *FORMS[number % len(FORMS)]) for number in range(count)]


def _row(rng: random.Random, how: str, fields: JsonObject) -> JsonObject:
    question, right, wrong = rng.choice(KINDS)(rng)
    texts = [right, *wrong]
    rng.shuffle(texts)
    options = list(zip(LETTERS, texts, strict=False))
    shown = "\n".join(f"{letter}: {text}" for letter, text in options)
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{question}\n{shown}\n{how}"}]},
        "options": [{letter: text} for letter, text in options],
        "expected_answer": next(letter for letter, text in options if text == right),
        **fields,
    }


def _sum(rng: random.Random) -> tuple[str, str, list[str]]:
    first, second = rng.randint(11, 89), rng.randint(11, 89)
    others = rng.sample([step for step in range(-20, 21) if step], rng.randint(2, 5))
    return f"What is {first} + {second}?", str(first + second), [str(first + second + step) for step in others]


def _longest(rng: random.Random) -> tuple[str, str, list[str]]:
    words = rng.sample(WORDS, 4)
    longest = max(words, key=len)
    shorter = [word for word in words if len(word) < len(longest)]
    return "Which of these words has the most letters?", longest, shorter or [longest[:-1]]


def _multiple(rng: random.Random) -> tuple[str, str, list[str]]:
    base = rng.randint(3, 9)
    numbers = [base * rng.randint(4, 30) + step for step in range(1, min(base, 5))]
    return f"Which of these numbers is divisible by {base}?", str(base * rng.randint(4, 30)), [*map(str, numbers)]


KINDS: Sequence[Callable[[random.Random], tuple[str, str, list[str]]]] = (_sum, _longest, _multiple)


if __name__ == "__main__":
    print_rows("Print multiple-choice rows.", make_rows)
