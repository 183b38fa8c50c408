"""Makes rows that ask for a short text under one to three verifiable instructions.

Usage   python -m paddock.resources_servers.instructions.make_rows --count N --seed S
Output  JSONL, the same for the same arguments. Each row has an `example_answer` that obeys.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paddock.collect.row_command import print_rows
from paddock.resources_servers.instructions.kinds import KINDS
from paddock.types import JsonObject

TOPICS = ("a harbour in winter", "how bread is made", "a lost umbrella", "the first day at a new school", "bees")
SENTENCES = (
    "The morning was cold and the street was still empty",
    "Nobody had thought of the small things that matter most",
    "A neighbour came by and told us how it was done in the old days",
    "We took our time and made no haste with any of it",
    "In the end there was enough for everybody in the house",
    "It is the kind of story that people like to hear again",
)
WORDS = ("copper", "lantern", "meadow", "thistle", "anchor", "orchard")


class InstructionRequest(NamedTuple):
    """One instruction: its arguments, how it is asked for, and an edit after which a text obeys it."""

    kind: str
    kwargs: JsonObject
    text: str
    edit: Callable[[str], str]


def _keywords(rng: random.Random) -> InstructionRequest:
    words = rng.sample(WORDS, 2)
    asked = f"Include the words {words[0]} and {words[1]}."
    return InstructionRequest(
        "keywords:existence", {"keywords": words}, asked, lambda text: f"{text} I saw a {' and a '.join(words)}."
    )


def _frequency(rng: random.Random) -> InstructionRequest:
    word, times = rng.choice(WORDS), rng.randint(2, 4)
    kwargs = {"keyword": word, "frequency": times, "relation": "at least"}
    asked = f"The word {word} should appear at least {times} times."
    return InstructionRequest(
        "keywords:frequency", kwargs, asked, lambda text: f"{text} There was {(word + ' ') * times}there."
    )


def _forbidden(rng: random.Random) -> InstructionRequest:
    words = rng.sample(WORDS, 2)
    return InstructionRequest(
        "keywords:forbidden_words", {"forbidden_words": words}, f"Do not use the words {words[0]} and {words[1]}.", str
    )


def _letter(rng: random.Random) -> InstructionRequest:
    times = rng.randint(2, 5)
    kwargs = {"letter": "z", "let_frequency": times, "let_relation": "at least"}
    return InstructionRequest(
        "keywords:letter_frequency",
        kwargs,
        f"The letter z should appear at least {times} times.",
        lambda text: f"{text} A {'buzz ' * times}came from the hive.",
    )


def _sentences(rng: random.Random) -> InstructionRequest:
    count = rng.randint(3, 6)
    kwargs = {"num_sentences": count, "relation": "at least"}
    asked = f"Write at least {count} sentences."
    return InstructionRequest(
        "length_constraints:number_sentences", kwargs, asked, lambda text: text + " So it went." * count
    )


def _words(rng: random.Random) -> InstructionRequest:
    count = rng.choice((80, 120, 200))
    kwargs = {"num_words": count, "relation": "less than"}
    return InstructionRequest("length_constraints:number_words", kwargs, f"Answer with less than {count} words.", str)


def _bullets(rng: random.Random) -> InstructionRequest:
    count = rng.randint(2, 4)
    asked = f"Use exactly {count} bullet points, in Markdown, such as: * This is a point."
    edit = "".join(f"\n* {SENTENCES[index]}." for index in range(count))
    return InstructionRequest(
        "detectable_format:number_bullet_lists", {"num_bullets": count}, asked, lambda text: text + edit
    )


def _placeholders(rng: random.Random) -> InstructionRequest:
    count = rng.randint(1, 3)
    asked = f"Have at least {count} placeholders in square brackets, such as [address]."
    kwargs = {"num_placeholders": count}
    return InstructionRequest(
        "detectable_content:number_placeholders", kwargs, asked, lambda text: text + " Ask [name]." * count
    )


def _postscript(rng: random.Random) -> InstructionRequest:
    asked = "Add a postscript that starts with P.S."
    edit = "\n\nP.S. Write soon."
    return InstructionRequest(
        "detectable_content:postscript", {"postscript_marker": "P.S."}, asked, lambda text: text + edit
    )


def _title(rng: random.Random) -> InstructionRequest:
    asked = "Have a title in double angular brackets, such as <<title>>."
    return InstructionRequest("detectable_format:title", {}, asked, lambda text: f"<<Of old days>>\n{text}")


def _no_comma(rng: random.Random) -> InstructionRequest:
    return InstructionRequest("punctuation:no_comma", {}, "Use no comma.", lambda text: text.replace(",", ""))


def _lowercase(rng: random.Random) -> InstructionRequest:
    return InstructionRequest(
        "change_case:english_lowercase", {}, "Write in English, in small letters only.", str.lower
    )


def _ends(rng: random.Random) -> InstructionRequest:
    phrase = rng.choice(("That is all I know.", "Ask me again tomorrow."))
    asked = f"End with the exact phrase: {phrase}"
    return InstructionRequest("startend:end_checker", {"end_phrase": phrase}, asked, lambda text: f"{text} {phrase}")


MAKERS: Sequence[Callable[[random.Random], InstructionRequest]] = (
    *(_keywords, _frequency, _forbidden, _letter, _sentences, _words, _bullets, _placeholders, _postscript, _title),
    *(_no_comma, _lowercase, _ends),
)
"""In the order in which their edits are made."""


def make_rows(count: int, seed: int) -> list[JsonObject]:
    """Make rows; equal arguments give equal ones."""
    rng = random.Random(seed)
    rows: list[JsonObject] = []
    while len(rows) < count:
        chosen = sorted(rng.sample(range(len(MAKERS)), rng.randint(1, 3)))
        asked = [MAKERS[index](rng) for index in chosen]
        answer = ". ".join(rng.sample(SENTENCES, 3)) + "."
        for one in asked:
            answer = one.edit(answer)
        if all(_obeys(one, answer) for one in asked):
            rows.append(_row(rng, asked, answer))
    return rows


def _obeys(asked: InstructionRequest, answer: str) -> bool:
    kind = KINDS[asked.kind]
    return kind.follows(answer, kind.arguments.model_validate(asked.kwargs))


def _row(rng: random.Random, asked: Sequence[InstructionRequest], answer: str) -> JsonObject:
    prompt = f"Write a few sentences about {rng.choice(TOPICS)}. {' '.join(one.text for one in asked)}"
    return {
        "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
        "instruction_id_list": [one.kind for one in asked],
        "kwargs": [one.kwargs for one in asked],
        "prompt": prompt,
        "grading_mode": rng.choice(("binary", "fraction")),
        "example_answer": answer,
    }


if __name__ == "__main__":
    print_rows("Print rows of verifiable instructions.", make_rows)
