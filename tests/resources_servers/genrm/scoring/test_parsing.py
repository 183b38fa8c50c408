"""A judge's answer is read by the stated rules, or not at all; no text is too hostile to be read in time."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.resources_servers.genrm.records import JudgeScores
from paddock.resources_servers.genrm.scoring.parsing import MAX_UNCLOSED, read_scores

FIRST = '{"score_1": 5, "score_2": 2, "ranking": 1}'
SECOND = '{"score_1": 1, "score_2": 4, "ranking": 6}'
MEGABYTE = 1_000_000
GENEROUS_S = 30.0
"""On a loaded machine; each takes about a second at most, where quadratic time would take hours."""


def read(text: str) -> JudgeScores | None:
    return read_scores(text, default_score=3.0, default_ranking=3.5)


def says(score_1: float, score_2: float, ranking: float, *missing: str) -> JudgeScores:
    return JudgeScores(score_1=score_1, score_2=score_2, ranking=ranking, missing=missing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(FIRST, says(5, 2, 1), id="bare"),
        pytest.param(f"First {FIRST}, no: {SECOND}. Done.", says(1, 4, 6), id="last of the text"),
        pytest.param(f'{FIRST} and {{"note": 1}} {{x}}', says(5, 2, 1), id="last valid one"),
        pytest.param(f"```json\n{FIRST}\n```\n{SECOND}", says(5, 2, 1), id="fenced before bare"),
        pytest.param(f"```json\n{FIRST}\n{SECOND}\n```", says(5, 2, 1), id="first of a block"),
        pytest.param(f"```JSON {{}}```\n```Json\n{SECOND}```", says(1, 4, 6), id="next block, any case"),
        pytest.param(f"```json\nnone\n```\n{SECOND}", says(1, 4, 6), id="useless block"),
        pytest.param(f"```\n{FIRST}\n```\n{SECOND}", says(1, 4, 6), id="only json fences count"),
        pytest.param(f"```json\n{FIRST}", says(5, 2, 1), id="block without an end"),
        pytest.param(f'{{"overall": {FIRST}, "why": "clear"}}', says(5, 2, 1), id="overall"),
        pytest.param(f'{{"result": {FIRST}}}', None, id="nested elsewhere"),
        pytest.param('{"score_1": 4}', says(4, 3, 3.5, "score_2", "ranking"), id="one key"),
        pytest.param('{"ranking": 5}', says(3, 3, 5, "score_1", "score_2"), id="only the ranking"),
        pytest.param('{"score_1": "4.5", "score_2": " 2 ", "ranking": "1"}', says(4.5, 2, 1), id="numbers as strings"),
        pytest.param(
            '{"why": "a } and a \\" {", "score_2": 2}', says(3, 2, 3.5, "score_1", "ranking"), id="braces in strings"
        ),
        pytest.param(f"the body of f() {{ lacks an end; {FIRST}", says(5, 2, 1), id="brace that is not closed"),
        pytest.param("{" * MAX_UNCLOSED + FIRST, None, id="too many of them"),
        pytest.param(f'{{ "{FIRST}', says(5, 2, 1), id="nor its odd quote"),
        pytest.param("Response 1 is better: 5 to 2.", None, id="prose"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_rules(text: str, expected: JudgeScores | None) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "value",
    ["0", "5.01", "100", "-1", "true", "null", '"five"', '"nan"', "NaN", "Infinity", "1e999", "[4]", "1" * 5000],
)
def test_an_object_with_a_value_out_of_range_is_not_valid(value: str) -> None:
    bad = f'{{"score_1": {value}, "score_2": 3, "ranking": 3}}'
    assert read(bad) is None
    assert read(f"{SECOND} {bad}") == says(1, 4, 6)


def test_rankings_reach_to_six() -> None:
    assert read('{"ranking": 6}') is not None
    assert read('{"ranking": 6.5}') is None
    assert read('{"score_1": 6}') is None


@given(st.text(st.sampled_from('{}[]":,\\`json score_1 5'), max_size=200) | st.text(max_size=50))
def test_no_text_raises(text: str) -> None:
    found = read(text)
    assert found is None or len(found.missing) < 3


@given(
    score_1=st.floats(1, 5),
    score_2=st.integers(1, 5),
    ranking=st.integers(1, 6),
    others=st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.none(), max_size=3),
    before=st.text(st.characters(exclude_characters="{"), max_size=30),
    fenced=st.booleans(),
)
def test_a_judgement_is_found_among_prose(
    score_1: float, score_2: int, ranking: int, others: dict[str, Any], before: str, fenced: bool
) -> None:
    text = json.dumps({**others, "score_1": score_1, "score_2": score_2, "ranking": ranking})
    text = f"{before}```json\n{text}\n```" if fenced else f"{before}{text} That is all."
    assert read(text) == says(score_1, score_2, ranking)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "{",
        '{"a": 0} ',
        '{"',
        '"',
        '{"a":',
        '{"a" ',
        "```json",
        "```json ",
        '{"\\',
        "[{",
        '{"a":[',
        "{}{",
        "\n```json {",
        "`",
    ],
)
def test_hostile_texts_take_linear_time(unit: str) -> None:
    started = time.monotonic()
    for text in ("{" + unit * (MEGABYTE // len(unit)), "```json " + unit * (MEGABYTE // 4 // len(unit)) + "```"):
        assert read(text) is None
    assert time.monotonic() - started < GENEROUS_S
