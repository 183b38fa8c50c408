"""What a judge's answer says: a JSON object with `score_1`, `score_2`, `ranking`, somewhere in its text.

Objects the top-level brace-balanced parts of a text that are JSON; braces in JSON strings do not count. A brace that
        is never closed begins none: reading goes on behind it, for the first `MAX_UNCLOSED` of them.
Valid   an object (or the object under its `overall`) with at least one of the three keys, each that is there a finite
        number in its range: JSON numbers, or strings that are such; no booleans, no null.
Which   the first valid one in blocks fenced as ```json (any case); else the last valid one of the whole text.
Missing keys have their defaults and are named.
Errors  none for any text: what can't be read is None. Time is linear in the text.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping

from paddock.resources_servers.genrm.records import (
    HIGHEST_RANKING,
    HIGHEST_SCORE,
    LOWEST_RANKING,
    LOWEST_SCORE,
    JudgeScores,
)
from paddock.types import JsonObject

MAX_UNCLOSED = 8
"""Each costs one more reading of the rest of the text."""
MAX_DEPTH = 100
"""Braces within braces; no judgement has as many, and JSON's reader would not take many more."""
RANGES: Mapping[str, tuple[float, float]] = {
    "score_1": (LOWEST_SCORE, HIGHEST_SCORE),
    "score_2": (LOWEST_SCORE, HIGHEST_SCORE),
    "ranking": (LOWEST_RANKING, HIGHEST_RANKING),
}
FENCE = "```"
_JSON_FENCE = re.compile(r"```json", re.IGNORECASE)
_TOKEN = re.compile(r'[{}]|"(?:[^"\\]++|\\.)*"?', re.DOTALL)
"""Inside an object: a brace, or a string, which may lack its end where the text ends."""


def read_scores(text: str, *, default_score: float, default_ranking: float) -> JudgeScores | None:
    """Read a judge's scores from its text; None: no object of the text has valid ones."""
    fenced = (_numbers(obj) for block in _blocks(text) for obj in _objects(block))
    numbers = next((scores for scores in fenced if scores is not None), None)
    if numbers is None:
        for obj in _objects(text):
            numbers = _numbers(obj) or numbers
    if numbers is None:
        return None
    return JudgeScores(
        score_1=numbers.get("score_1", default_score),
        score_2=numbers.get("score_2", default_score),
        ranking=numbers.get("ranking", default_ranking),
        missing=tuple(name for name in RANGES if name not in numbers),
    )


def _blocks(text: str) -> Iterator[str]:
    """Contents of the fenced blocks, each up to the next fence; one without an end is none."""
    end = 0
    while opening := _JSON_FENCE.search(text, end):
        close = text.find(FENCE, opening.end())
        if close < 0:
            return
        yield text[opening.end() : close]
        end = close + len(FENCE)


def _objects(text: str) -> Iterator[JsonObject]:
    """Yield the objects of a text that are JSON, in order."""
    start, unclosed = text.find("{"), 0
    while start >= 0 and unclosed < MAX_UNCLOSED:
        end = _end(text, start)
        if end is None:
            unclosed += 1
            end = start + 1
        elif (obj := _read(text[start:end])) is not None:
            yield obj
        start = text.find("{", end)


def _end(text: str, start: int) -> int | None:
    """Index behind the brace that closes the one at `start`; None: there is none, or too many are open."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        match token.group():
            case "{":
                depth += 1
            case "}":
                depth -= 1
            case _:
                continue
        if depth == 0:
            return token.end()
        if depth > MAX_DEPTH:
            return None
    return None


def _read(text: str) -> JsonObject | None:
    try:
        obj = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return obj if isinstance(obj, dict) else None


def _numbers(obj: JsonObject) -> dict[str, float] | None:
    """Return those of the three numbers that a valid object states; None: it is not valid."""
    nested = obj.get("overall")
    stated = nested if isinstance(nested, dict) else obj
    numbers = {name: _number(stated[name]) for name in RANGES if name in stated}
    valid = {name: number for name, number in numbers.items() if number is not None and _within(name, number)}
    return valid if valid and len(valid) == len(numbers) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _within(name: str, value: float) -> bool:
    low, high = RANGES[name]
    return math.isfinite(value) and low <= value <= high
