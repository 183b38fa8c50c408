"""Makes rows with questions whose right answers can be put in many words.

Usage   python -m paddock.resources_servers.judged.make_rows --count N --seed S
Output  JSONL, the same for the same arguments. The kinds of questions come in turn.
"""

import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from paddock.collect.row_command import print_rows
from paddock.types import JsonObject

INSTRUCTION = "Answer the question in one sentence."
_THINGS = ("ladder", "compass", "kettle", "lantern", "hammer", "telescope", "sledge", "violin")
_PEOPLE = ("Ines", "Bruno", "Akiko", "Tomas", "Leyla", "Oscar")
_PLACES = ("the boat house", "the mill", "the chapel", "the railway yard", "the orchard", "the quarry")


def make_rows(count: int, seed: int) -> list[JsonObject]:
    """Make rows; equal arguments give equal ones."""
    rng = random.Random(seed)
    return [_row(*KINDS[number % len(KINDS)](rng)) for number in range(count)]


def _row(question: str, answer: str) -> JsonObject:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"{INSTRUCTION}\n\n{question}"}]},
        "question": question,
        "expected_answer": answer,
    }


def _owner(rng: random.Random) -> tuple[str, str]:
    first, second, third = rng.sample(_PEOPLE, 3)
    thing = rng.choice(_THINGS)
    text = f"{first} lent a {thing} to {second}. {second} passed it on to {third}, who has returned it to its owner."
    return f"{text} Who has the {thing} now?", first


def _place(rng: random.Random) -> tuple[str, str]:
    (north, middle, south), who = rng.sample(_PLACES, 3), rng.choice(_PEOPLE)
    text = f"From south to north stand {south}, {middle} and {north}. {who} is at {middle} and walks north."
    return f"{text} Which of the three does {who} come to?", north


def _day(rng: random.Random) -> tuple[str, str]:
    start, days = date(2027, rng.randint(1, 12), rng.randint(1, 28)), rng.randint(5, 60)
    end = start + timedelta(days=days)
    return f"Which date is {days} days after {start.isoformat()}?", f"{end.day} {end:%B} {end.year}"


def _cause(rng: random.Random) -> tuple[str, str]:
    thing, other = rng.sample(_THINGS, 2)
    who, where = rng.choice(_PEOPLE), rng.choice(_PLACES)
    text = f"{who} wanted to fetch the {thing} from {where}, but the door was locked, and so {who} took the {other}."
    return f"{text} Why did {who} not take the {thing}?", f"The door of {where} was locked."


def _length(rng: random.Random) -> tuple[str, str]:
    minutes = rng.randint(4, 20) * 15
    hours, rest = divmod(minutes, 60)
    parts = [f"{hours} hour{'s' * (hours != 1)}"] + ([f"{rest} minutes"] if rest else [])
    begin = rng.randint(6, 12) * 60
    end = begin + minutes
    times = f"{begin // 60:02}:{begin % 60:02} to {end // 60:02}:{end % 60:02}"
    return f"A ferry runs from {times} of the same day. How long is it under way?", " ".join(parts)


KINDS: Sequence[Callable[[random.Random], tuple[str, str]]] = (_owner, _place, _day, _cause, _length)


if __name__ == "__main__":
    print_rows("Print rows with questions that are answered freely.", make_rows)
