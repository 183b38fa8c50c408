"""Claims about reasoning-gym's tasks: scores are the library's own; what it can't score soundly is never a reward."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.gym_rewards import interpreter

from paddock.errors import ConfigError
from paddock.resources_servers.reasoning_gym.answers import answer_of
from paddock.resources_servers.reasoning_gym.server import ReasoningGymConfig, ReasoningGymServer
from paddock.types import JsonObject
from paddock.types.responses import make_response, message_item

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DATA = ROOT / "resources_servers" / "reasoning_gym" / "data"
MAKE = ("-m", "paddock.resources_servers.reasoning_gym.make_rows", "--datasets")
SMALL = '{"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}'


@pytest.fixture
def python() -> str:
    return interpreter("PADDOCK_REASONING_GYM_PYTHON", "paddock and reasoning-gym 0.1.25")


def run(python: str, *words: str, given: Any = None) -> bytes:
    """What a program prints that runs this tree's package under the other interpreter."""
    return subprocess.run(
        [python, "-W", "ignore", *words],
        input=json.dumps(given).encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        stdout=subprocess.PIPE,
    ).stdout


def judged(python: str, cases: list[JsonObject], **config: Any) -> list[JsonObject]:
    found: list[JsonObject] = json.loads(
        run(python, str(HERE / "serve_answers.py"), given={"config": config, "cases": cases})
    )
    return found


def row(answer: str = "7", dataset: str = "chain_sum", **metadata: Any) -> JsonObject:
    return {
        "responses_create_params": {"input": "3 + 4 ="},
        "question": "3 + 4 =",
        "answer": answer,
        "metadata": {"source_dataset": dataset, **metadata},
    }


@pytest.mark.slow
def test_scores_are_the_librarys_own(python: str) -> None:
    cases = json.loads(run(python, str(HERE / "score_directly.py")))
    asked = [{"row": case["row"], "text": f"Let me see. <answer>{case['answer']}</answer>"} for case in cases]
    verdicts = judged(python, asked)
    for case, verdict in zip(cases, verdicts, strict=True):
        assert verdict.get("reward") == case["score"], (case, verdict)
    assert len(cases) >= 200
    assert len({case["row"]["metadata"]["source_dataset"] for case in cases}) >= 15


@pytest.mark.slow
def test_what_is_not_sound_is_an_outcome_and_honest_answers_are_paid(python: str) -> None:
    found = judged(
        python,
        [
            {"row": row(), "text": "7"},
            {"row": row(), "text": "So \\boxed{7}"},
            {"row": row(), "text": "<answer>8</answer> no, <answer> 7 </answer>"},
            {"row": row(), "text": "<answer>7</answer> or <answer>8</answer>"},
            {"row": row(), "text": ""},
            {"row": row(), "text": "7 " * 5000},
            {"row": row(dataset="no_such_set"), "text": "7"},
            {"row": row(answer="banana"), "text": "banana"},
            {"row": row(dataset="prime_factorization", answer="7"), "text": "7"},
        ],
    )
    assert [one.get("reward") for one in found[:6]] == [1.0, 1.0, 1.0, *[pytest.approx(0.0, abs=0.05)] * 3]
    assert [one["reason"] for one in found[4:6]] == ["no_answer", "too_long"]
    for refused in found[6:]:
        assert (refused.get("owner"), refused.get("kind")) == ("row", "row_unsound"), refused


@pytest.mark.slow
def test_a_scorer_that_raises_or_takes_for_ever_is_no_reward_and_costs_no_server(python: str) -> None:
    raising = row(dataset="prime_factorization", answer="7")
    costly = row(dataset="countdown", answer="9", target=9, numbers=[9])
    cases = [
        {"row": raising, "text": "banana"},
        {"row": costly, "text": "9**9**9**9"},
        {"row": row(), "text": "7"},
    ]
    raised, took, honest = judged(python, cases, require_sound=False, cpu_limit_s=2.0)
    assert (raised["owner"], raised["kind"]) == ("verifier", "scorer_raised")
    assert took.get("reward", 0.0) <= 0.05, took
    assert honest["reward"] == 1.0


@pytest.mark.slow
def test_rows_are_what_their_script_prints(python: str) -> None:
    names = ("chain_sum", "basic_arithmetic", "letter_counting", "number_sorting")
    assert run(python, *MAKE, *names, "--count", "2", "--seed", "0") == (DATA / "example.jsonl").read_bytes()
    sums = run(python, *MAKE, "chain_sum", "--count", "300", "--seed", "1", "--short", "--config", SMALL).splitlines()
    assert sums[:120] == (DATA / "small_sums_train.jsonl").read_bytes().splitlines()
    assert sums[-38:] == (DATA / "small_sums_validation.jsonl").read_bytes().splitlines()
    assert len(sums) == 158


@pytest.mark.slow
def test_data_sets_that_pay_nonsense_or_not_their_own_answer_make_no_rows(python: str) -> None:
    bad = ("graph_color", "rush_hour", "game_of_life_halting", "prime_factorization")
    assert run(python, *MAKE, *bad, "--count", "2", "--seed", "0") == b""


async def test_without_the_library_it_says_what_to_install() -> None:
    server = ReasoningGymServer(ReasoningGymConfig(), name="reasoning_gym", peers={})
    with pytest.raises(ConfigError, match="pip install reasoning-gym"):
        await server.start()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>a</answer><answer> b </answer>", "b"),
        ("<answer>a</answer> <answer>b", "a"),
        ("x</answer>", "x</answer>"),
        ("<answer><answer>a</answer>", "<answer>a"),
        ("\\boxed{a} \\boxed{b}", "a"),
        (" a ", "a"),
        ("<answer>" * 20_000, "<answer>" * 20_000),
        ("</answer>" * 20_000, "</answer>" * 20_000),
    ],
)
def test_the_answer_is_the_last_in_its_tag(text: str, answer: str) -> None:
    assert answer_of(make_response([message_item(text)], {}, model="policy")) == answer
