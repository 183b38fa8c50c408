"""Claims about verifiable instructions: who obeys is paid, by the rule and no more; no empty answer, no flood."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.instructions import InstructionsServer
from paddock.resources_servers.instructions.kinds import KINDS
from paddock.resources_servers.instructions.make_rows import make_rows
from paddock.resources_servers.instructions.sentences import count_capital_words, count_sentences
from paddock.resources_servers.instructions.server import InstructionsConfig
from paddock.testing.transports import over
from paddock.types import JsonObject, Verdict
from paddock.types.records import WEAK_ROW
from paddock.types.responses import make_response, message_item

DATA = Path(__file__).parents[3] / "resources_servers" / "instructions" / "data" / "example.jsonl"


def row(*instructions: tuple[str, JsonObject | None], **fields: Any) -> JsonObject:
    return {
        "responses_create_params": {"input": "Write something."},
        "instruction_id_list": [kind for kind, _ in instructions],
        "kwargs": [arguments for _, arguments in instructions],
        **fields,
    }


async def judge(line: JsonObject, text: str, **config: Any) -> Verdict:
    asked = read_row(line)
    response = make_response([message_item(text)], asked.responses_create_params, model="policy")
    server = InstructionsServer(InstructionsConfig(**config), name="instructions", peers={})
    async with over("direct", server) as peers:
        return await peers["instructions"].call(VERIFY, VerifyRequest(row=asked, response=response), Call())


NO_COMMA = ("punctuation:no_comma", None)
TITLE: tuple[str, JsonObject] = ("detectable_format:title", {})
NO_FOX = ("keywords:forbidden_words", {"forbidden_words": ["fox", "c++"]})


async def test_binary_pays_all_or_nothing_and_fraction_the_share() -> None:
    for mode, reward in (("binary", 0.0), ("fraction", 0.5)):
        verdict = await judge(row(NO_COMMA, TITLE, grading_mode=mode), "No title here.")
        assert (verdict.reward, verdict.reason) == (reward, "some_followed")
        assert verdict.extras["follow_instruction_list"] == [True, False]
        assert verdict.detail == "not followed: detectable_format:title"
    assert (await judge(row(NO_COMMA, TITLE), "<<Title>> and text")).reward == 1.0
    assert (await judge(row(TITLE), "text")).reason == "none_followed"


async def test_no_answer_is_no_obedience() -> None:
    for text in ("", " \n\t"):
        verdict = await judge(row(NO_COMMA, NO_FOX, grading_mode="fraction"), text)
        assert (verdict.reward, verdict.reason, verdict.metrics[WEAK_ROW]) == (0.0, "empty", 1.0)
    assert (await judge(row(NO_COMMA, TITLE), "x")).metrics[WEAK_ROW] == 0.0


async def test_a_flood_is_not_read() -> None:
    keywords = ("keywords:existence", {"keywords": ["fox"]})
    assert (await judge(row(keywords), "fox " * 60_000)).reason == "too_long"
    # By its rule a list of the words is enough; README.md says so.
    assert (await judge(row(keywords), "fox")).reward == 1.0


@pytest.mark.parametrize(
    ("kind", "arguments", "text", "follows"),
    [
        ("keywords:existence", {"keywords": ["C++", "a.b"]}, "I like c++ and A.B", True),
        ("keywords:existence", {"keywords": ["a.b"]}, "acb", False),
        ("keywords:forbidden_words", {"forbidden_words": ["c++"]}, "I like C++.", False),
        ("keywords:forbidden_words", {"forbidden_words": ["fox"]}, "foxes", True),
        ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "# #", True),
        ("language:response_language", {"language": "de"}, "Der Hund schläft im Garten des Hauses.", True),
        ("language:response_language", {"language": "de"}, "The dog sleeps in the garden of the house.", False),
        ("language:response_language", {"language": "de"}, "12345 !!!", False),
        ("detectable_format:json_format", {}, "```json\n{}\n```", True),
        ("detectable_format:json_format", {}, "[" * 100_000, False),
        ("detectable_content:postscript", {"postscript_marker": "N.B."}, "Text.\n\nN.B. more", True),
        ("detectable_content:postscript", {"postscript_marker": "N.B."}, "Text nab", False),
        ("combination:two_responses", {}, "one ****** one", False),
        ("combination:two_responses", {}, "one ****** two", True),
        ("startend:quotation", {}, '"', False),
        ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "one two", True),
    ],
)
async def test_a_check_goes_by_its_rule(kind: str, arguments: JsonObject, text: str, follows: bool) -> None:
    assert (await judge(row((kind, arguments)), text)).reward == float(follows)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two? Three!", 3),
        ("Wow!!! Really?!", 2),
        ("Mr. Fox paid 3.50 to Foo Inc. in the U.S. on Monday.", 1),
        ("He works at Foo Inc. However that was long ago.", 2),
        ("See www.example.com or e.g. this one", 1),
        ("J. Fox came", 1),
        ("No mark", 1),
        ("...", 0),
        ("", 0),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, count: int) -> None:
    assert count_sentences(text) == count


def test_a_word_in_capitals_has_no_small_letter() -> None:
    assert count_capital_words("A WELL-KNOWN fox, U.S. and NATO's; 12 I'M") == 4


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_no_text_within_the_bound_takes_long(kind: str) -> None:
    arguments = {
        "keywords": ["a" * 20 + "b"], "keyword": "aab", "frequency": 1, "relation": "at least", "letter": "q",
        "forbidden_words": ["b"], "let_frequency": 1, "let_relation": "at least", "language": "fi",
        "num_sentences": 10**6, "num_paragraphs": 7, "num_words": 10**6, "nth_paragraph": 2, "first_word": "b",
        "num_placeholders": 10**6, "postscript_marker": "P.P.S", "num_bullets": 3, "num_highlights": 10**6,
        "section_spliter": "Section", "num_sections": 10**6, "prompt_to_repeat": "b", "end_phrase": "b",
        "capital_frequency": 10**6, "capital_relation": "at least",
    }  # fmt: skip
    for text in ("a" * 199_999, " " * 199_998 + "x", "[" * 199_999, "<<" * 99_999, "*x" * 99_999, "p. " * 60_000, "\n" * 199_998 + "x", "a." * 99_999, "A-" * 99_999, "Section " * 24_000):  # noqa: E501  # fmt: skip
        assert (await judge(row((kind, arguments)), text)).reason in ("none_followed", "all_followed")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(("keyword:existence", {})), "instruction_id_list.0: no kind .*nearest: `keywords:existence`"),
        (row(("last_word:last_word_answer", {"last_word": "x"})), "instruction_id_list.0"),
        (row(("keywords:existence", {})), "kwargs.0 of keywords:existence.*keywords"),
        (row(("keywords:existence", {"keywords": None})), "kwargs.0"),
        (row(("length_constraints:number_words", {"num_words": 3, "relation": "about"})), "relation"),
        (row(("length_constraints:number_words", {"num_words": -3, "relation": "at least"})), "num_words"),
        ({**row(NO_COMMA), "kwargs": []}, "kwargs: 0 for 1"),
        (row(), "instruction_id_list"),
        (row(NO_COMMA, grading_mode="mean"), "grading_mode"),
    ],
)
async def test_a_row_that_can_not_be_checked_is_refused(line: JsonObject, message: str) -> None:
    with pytest.raises(RowError, match=message):
        await judge(line, "text")


def test_the_example_rows_are_what_their_script_prints() -> None:
    command = [sys.executable, "-m", "paddock.resources_servers.instructions.make_rows", "--count", "10", "--seed", "0"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == DATA.read_bytes()


async def test_the_answers_of_made_rows_obey() -> None:
    for line in make_rows(60, 1):
        assert (await judge(line, line["example_answer"])).reward == 1.0, line
