"""Claims about verifiable instructions: who obeys is paid, by the rule and no more; no empty answer, no flood."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.instructions import InstructionsServer
from paddock.resources_servers.instructions.iftrain import IFTRAIN_KINDS
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


PROMPT = {"prompt_to_repeat": "Tell me of bees."}
CENTRE = {"phrase": "the old grey barn", "small_n": 2}


@pytest.mark.parametrize(
    ("kind", "arguments", "obeys", "does_not"),
    [
        (
            "copy:repeat_phrase",
            CENTRE,
            "the new grey barn\nand the old red barn",
            "the old grey barn, the old red barn",
        ),
        ("copy:repeat_phrase", CENTRE, "the big grey barn the old big barn", "the new red barn and the old big barn"),
        ("copy:copy", PROMPT, " tell me of bees.\n", "Tell me of bees. Bees are insects."),
        ("copy:copying_simple", PROMPT, "Tell me of bees.", "Of bees."),
        ("copy:copying_multiple", {**PROMPT, "N": 2}, "Tell me of bees.\n******\nTell me of bees.", "Tell me of bees."),
        ("new:copy_span_idx", {**PROMPT, "n_start": 0, "n_end": 7}, "Tell me", "Tell me of"),
        ("detectable_format:sentence_hyphens", {}, "It rained.-We went.-Who came?", "It rained. We went."),
        ("detectable_format:sentence_hyphens", {}, "It rained.", "It rained. -We went."),
        ("detectable_format:square_brackets", {}, "[It] [rained.]", "[It] rained."),
        ("detectable_format:bigram_wrapping", {}, "<<It rained>> <<all day>>", "<<It>> <<rained all>> day"),
        ("keywords:no_adjacent_consecutive", {}, "Bees eat 1 2 figs", "A 'bee' eats"),
        ("keywords:word_once", {"keyword": "bee"}, "One Bee.", "A bee and a beetle"),
        (
            "keywords:word_count_different_numbers",
            {"keyword": "bee", "frequency": 2, "relation": "less than"},
            "One bee.",
            "A bee, a bee",
        ),
        ("keywords:exclude_word_harder", {"keyword": "bee"}, "A beetle.", "It was a Bee."),
        ("keywords:palindrome", {}, "A level, I see.", "A dog and I."),
        ("keywords:keyword_specific_position", {"keyword": ["bee"], "n": 2, "m": 3}, "Hm. So, a bee.", "So a bee. Hm."),
        ("keywords:start_end", {}, "Bees love other bees", "Bees love other bees."),
        ("paragraphs:paragraphs", {}, "One\n***\nTwo\n***", "One\n***\n***\nTwo"),
        ("paragraphs:paragraphs2", {}, "One\nmore\n\nTwo", "One\n\n\n\nTwo"),
        ("first_word:first_word_sent", {"first_word": "bees"}, '"Bees fly." Bees, they eat!', "Bees fly. They eat."),
        ("first_word:first_word_answer", {"first_word": "bees"}, "Bees: they fly", "They, bees, fly"),
        ("last_word:last_word_sent", {"last_word": ["bees"]}, "I like bees. You like bees!", "I like bees. I do."),
        ("last_word:last_word_answer", {"last_word": "bees"}, "I like Bees.", "bees I like"),
        ("punctuation:punctuation_dot", {}, "No dot!", "A dot."),
        ("punctuation:punctuation_exclamation", {}, "A dot.", "No dot!"),
        ("count:lowercase_counting", {"N": 2}, "BEES eat FIGS and NUTS", "Bees eat figs and nuts"),
        ("count:counting_composition", {"n_sent": 2, "n_words": 2}, "\n* * *\n".join(["Bees fly. They eat."] * 3), "x"),
        ("count:counting_composition", {"n_sent": 1, "n_words": 2}, "Bees fly.***They eat.***So what?", "A b.***C d."),
        ("count:count_unique", {}, "Bees fly. They eat.", "Bees fly; the bees eat."),
        ("count:count_increment_word", {"keyword1": "bee", "keyword2": "fig"}, "A bee, a fig, a fig", "A bee, a fig"),
        ("letters:letter_counting", {"N": 4, "relation": "less than"}, "abc 123 !!!", "abcd"),
        ("letters:letter_counting2", {"letter": "b", "let_frequency": 2, "let_relation": "at least"}, "Bob", "bee"),
    ],
)
async def test_kinds_of_iftrain_go_by_their_rules(kind: str, arguments: JsonObject, obeys: str, does_not: str) -> None:
    assert (await judge(row((kind, arguments)), obeys)).reason == "all_followed"
    assert (await judge(row((kind, arguments)), does_not)).reason == "none_followed"


def test_every_kind_of_iftrain_is_tried() -> None:
    marks = test_kinds_of_iftrain_go_by_their_rules.pytestmark  # type: ignore[attr-defined]
    tried = {case[0] for mark in marks for case in mark.args[1]}
    assert tried == set(IFTRAIN_KINDS)


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
        ('He said "yes." And (so it was.) Done', 3),
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
        "capital_frequency": 10**6, "capital_relation": "at least", "phrase": "a c a", "small_n": 3, "n_start": 0,
        "n_end": 1, "N": 10**6, "n_sent": 4, "n_words": 4, "keyword1": "a", "keyword2": "b", "n": 2, "m": 2,
        "last_word": "b",
    }  # fmt: skip
    for text in ("a" * 199_999, " " * 199_998 + "x", "[" * 199_999, "<<" * 99_999, "*x" * 99_999, "p. " * 60_000, "\n" * 199_998 + "x", "a." * 99_999, "A-" * 99_999, "Section " * 24_000):  # noqa: E501  # fmt: skip
        assert (await judge(row((kind, arguments)), text)).reason in ("none_followed", "all_followed")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(("keyword:existence", {})), "instruction_id_list.0: no kind .*nearest: `keywords:existence`"),
        (row(("words:start_verb", {})), "instruction_id_list.0"),
        (row(("startend:end_checker", {"end_phrase": " "})), "end_phrase.*more than blanks"),
        (row(("keywords:word_once", {"keyword": "\t"})), "keyword.*more than blanks"),
        (row(("last_word:last_word_sent", {"last_word": "!"})), "last_word.*needs a word"),
        (row(("copy:repeat_phrase", {"phrase": "old barn", "small_n": 1})), "phrase: needs 3 words"),
        (row(("last_word:last_word_answer", {"last_word": []})), "kwargs.0 of last_word:last_word_answer.*last_word"),
        (row(("copy:copying_multiple", {"prompt_to_repeat": "x"})), "kwargs.0 of copy:copying_multiple.*N"),
        (row(("new:copy_span_idx", {"prompt_to_repeat": "ab", "n_start": 2, "n_end": 9})), "nothing stands at 2:9"),
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
