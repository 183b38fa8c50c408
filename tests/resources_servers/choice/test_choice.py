"""Claims about multiple choice: who commits to the right option is paid, in unusual forms too; who hedges is not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RowError
from paddock.http import VERIFY, Call, VerifyRequest, read_row
from paddock.resources_servers.choice import ChoiceServer
from paddock.resources_servers.choice.letters import Choice, read_choice
from paddock.resources_servers.choice.make_rows import make_rows
from paddock.resources_servers.choice.server import ChoiceConfig
from paddock.resources_servers.choice.task import ChoiceTask
from paddock.testing.transports import over
from paddock.types import JsonObject, Verdict
from paddock.types.responses import make_response, message_item

DATA = Path(__file__).parents[3] / "resources_servers" / "choice" / "data" / "example.jsonl"
OPTIONS = [{"A": "pineapple"}, {"B": "apple"}, {"C": "fig"}, {"D": None}]
TAG = {"template_metadata": {"output_regex": r"<choice>\s*(.*?)\s*</choice>"}}


def row(**fields: Any) -> JsonObject:
    return {
        "responses_create_params": {"input": "Which one?"},
        "options": OPTIONS,
        "expected_answer": "B",
        **fields,
    }


async def judge(line: JsonObject, text: str, **config: Any) -> Verdict:
    asked = read_row(line)
    response = make_response([message_item(text)], asked.responses_create_params, model="policy")
    server = ChoiceServer(ChoiceConfig(**config), name="choice", peers={})
    async with over("direct", server) as peers:
        return await peers["choice"].call(VERIFY, VerifyRequest(row=asked, response=response), Call())


BOXED, LENIENT, COLON, MARKDOWN = (
    {"grading_mode": mode}
    for mode in ("strict_single_letter_boxed", "lenient_boxed", "lenient_answer_colon", "lenient_answer_colon_md")
)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (BOXED, "It is not A. \\boxed{B}"),
        (BOXED, "\\boxed{ (B). }, that is, \\boxed{B}"),
        (BOXED, "$\\boxed{\\text{B}}$"),
        (BOXED, "\\boxed{\\mathbf{B}}"),
        (BOXED, "With \\boxed{12} trees and \\boxed{N} fruits: \\boxed{B}"),
        (LENIENT, "\\boxed{B}"),
        (LENIENT, "\\boxed{Apple}"),
        (LENIENT, "\\boxed{\\text{ an  Apple }}".replace(" an ", "")),
        (LENIENT, "\\boxed{x + 1}, hence \\boxed{B}"),
        (COLON, "answer: b"),
        (COLON, "My answer: let me think.\nAnswer: \\text{B}"),
        (COLON, "ANSWER :  APPLE"),
        (MARKDOWN, "**Answer: B**"),
        (MARKDOWN, "__Answer__: B."),
        (MARKDOWN, "Answer: **B** because A is too large"),
        (TAG, "<choice>b</choice>"),
        (TAG, "<choice> apple </choice>"),
        (TAG, "<choice>ব</choice>"),
        (TAG, "no tag, but \\boxed{B}"),
        ({"template_metadata": {"output_regex": ["(?<=pick )[A-Z]", "<c>(.)</c>"]}}, "<c>B</c>"),
        ({**TAG, "options": None}, "<choice>B</choice>"),
    ],
)
async def test_an_answer_that_names_the_right_option_is_paid(fields: JsonObject, text: str) -> None:
    verdict = await judge(row(**fields), text)
    assert (verdict.reward, verdict.reason) == (1.0, "correct")
    assert verdict.extras["extracted_answer"] == "B"


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        (BOXED, "", "no_choice"),
        (BOXED, "B", "no_choice"),
        (BOXED, "\\boxed{}", "no_choice"),
        (BOXED, "\\boxed{b}", "no_choice"),
        (BOXED, "\\boxed{A, B, C}", "no_choice"),
        (BOXED, "\\boxed{A}", "wrong_choice"),
        (BOXED, "\\boxed{B} \\boxed{A}", "several_choices"),
        (BOXED, "\\boxed{A} \\boxed{B} \\boxed{C}", "several_choices"),
        (BOXED, "\\boxed{\\text{A}} or \\boxed{\\text{B}}", "several_choices"),
        (LENIENT, "\\boxed{apple or fig}", "no_choice"),
        (LENIENT, "\\boxed{apple} \\boxed{fig}", "several_choices"),
        (LENIENT, "\\boxed{B} \\boxed{pineapple}", "several_choices"),
        (COLON, "Answer: B or C", "no_choice"),
        (COLON, "Answer: B\nAnswer: C", "several_choices"),
        (COLON, "Answer: apple\nAnswer: C", "several_choices"),
        (MARKDOWN, "Answer: B or C", "several_choices"),
        (MARKDOWN, "Answer: B, C, A", "several_choices"),
        (MARKDOWN, "**Answer:** B\n**Answer:** A", "several_choices"),
        (MARKDOWN, "Answer: Bananas", "no_choice"),
        (TAG, "<choice>A</choice><choice>B</choice>", "several_choices"),
        (TAG, "<choice>B, C</choice>", "no_choice"),
        (TAG, "<choice>Z</choice> \\boxed{B}", "wrong_choice"),
        (BOXED, "\\boxed{B}" * 40_000, "too_long"),
    ],
)
async def test_a_hedge_and_what_names_no_option_are_not_paid(fields: JsonObject, text: str, reason: str) -> None:
    verdict = await judge(row(**fields), text)
    assert (verdict.reward, verdict.reason) == (0.0, reason)


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 25_000,
        "\\boxed{" + " " * 190_000,
        "\\boxed{" + "\\text{" * 15_000 + "}" * 90_000,
        "answer" + " " * 190_000,
        "Answer: " + "\\text{" * 25_000 + "}" * 25_000,
        "*_" * 90_000 + "Answer" + "_" * 1000,
        "Answer: B" + ", A" * 60_000,
    ],
    ids=range(7),
)
@pytest.mark.timeout(30)
@pytest.mark.parametrize("mode", [BOXED, LENIENT, COLON, MARKDOWN], ids=lambda mode: mode["grading_mode"])
async def test_no_text_within_the_bound_takes_long(mode: JsonObject, text: str) -> None:
    assert (await judge(row(**mode), text)).reward == 0.0


@pytest.mark.timeout(30)
async def test_a_catastrophic_pattern_costs_its_bound_and_no_rollout() -> None:
    line = row(template_metadata={"output_regex": "^(?:(a|aa)+)+$"})
    verdict = await judge(line, "a" * 60 + "!")
    assert (verdict.reward, verdict.reason) == (0.0, "pattern_too_slow")
    assert (await judge(line, "\\boxed{B}")).reward == 1.0


async def test_by_nemo_gym_the_first_place_or_a_patterns_last_match_counts() -> None:
    hedge = "\\boxed{B} \\boxed{A}"
    assert (await judge(row(), hedge, reading="nemo_gym")).reward == 1.0
    tags = "<choice>A</choice><choice>B</choice>"
    assert (await judge(row(**TAG), tags, reading="nemo_gym")).reward == 1.0


async def test_the_block_can_name_the_rule_for_all_rows() -> None:
    line = row(grading_mode="lenient_boxed")
    assert (await judge(line, "Answer: B", grading_mode="lenient_answer_colon")).reward == 1.0
    assert (await judge(line, "\\boxed{B}", grading_mode="lenient_answer_colon")).reward == 0.0


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"expected_answer": "E"}, "expected_answer"),
        ({"expected_answer": "D"}, "expected_answer"),
        ({"expected_answer": "apple"}, "expected_answer"),
        ({"expected_answer": ""}, "expected_answer"),
        ({"options": []}, "options"),
        ({"options": None}, "options"),
        ({"options": ["A"]}, "options"),
        ({"grading_mode": "strict"}, "grading_mode"),
        ({"template_metadata": {"output_regex": "([A-Z]"}}, "template_metadata.output_regex"),
        ({"template_metadata": {"output_regex": ["(.)", "x" * 3000]}}, "template_metadata.output_regex"),
    ],
)
async def test_a_row_that_no_answer_could_be_right_for_is_refused_by_its_key(fields: JsonObject, key: str) -> None:
    with pytest.raises(RowError, match=key):
        await judge(row(**fields), "\\boxed{B}")


def test_the_example_rows_are_what_their_script_prints() -> None:
    command = [sys.executable, "-m", "paddock.resources_servers.choice.make_rows", "--count", "10", "--seed", "0"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == DATA.read_bytes()


def test_made_rows_have_one_right_option() -> None:
    for line in make_rows(300, 1):
        texts = [text for option in line["options"] for text in option.values()]
        assert len(set(texts)) == len(texts) > 1
        json.dumps(line)


def test_a_thought_is_no_answer() -> None:
    task = ChoiceTask(options=[{"A": "8"}, {"B": "7"}], expected_answer="B")
    assert read_choice("<think>\\boxed{A}? No.</think>\\boxed{B}", task, "committed") == Choice("B")
    assert read_choice("\\boxed{A}? No.</think>\\boxed{B}", task, "committed") == Choice("B")
    assert read_choice("<think>It may be \\boxed{B}", task, "committed") == Choice(None)
    assert read_choice("<think>\\boxed{B}</think>\\boxed{A} \\boxed{B}", task, "committed").several
