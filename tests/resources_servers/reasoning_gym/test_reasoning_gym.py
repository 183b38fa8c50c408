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
def test_an_answer_runs_no_code_and_leaves_no_task_to_the_scorer(python: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    code = f"__import__('pathlib').Path({str(made)!r}).touch()"
    integral = row(dataset="simple_integration", answer="x**2/2 + C", variable="x", integrand="x + sin(x) + 1/x")
    product = row(dataset="polynomial_multiplication", answer="x**2 + 2*x + 1")
    matrix = row(dataset="binary_matrix", answer="0 1\n1 0")
    countdown = row(dataset="countdown", answer="9", target=9, numbers=[9])
    sets = ("string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "puzzle24", "countdown")
    ran = [*(row(dataset=name, target=9, numbers=[9], valid_answers=["7"]) for name in sets), integral, product]
    cheats = [(each, text) for each in ran for text in (code, f"[{code}]", f"sin({json.dumps(code)})")]
    cheats += [
        (integral, "Integral(x + sin(x) + 1/x, x)"),
        (integral, "integrate(x + sin(x) + 1/x, x)"),
        (product, "expand((x + 1)**2)"),
        (product, f"lambdify([], {json.dumps(code)})()"),
    ]
    honest = [
        (integral, "x**2/2 - cos(x) + log(x) + C", 1.0),
        (product, "x**2 + 2*x + 1", 1.0),
        (matrix, "[[0, 1], [1, 0]]", 0.1),
        (countdown, "abs(-9)", 1.0),
        (row(dataset="bitwise_arithmetic", answer="0xa", problem="(0x5 << 0x1)"), "0xa", 1.0),
    ]
    cases = [{"row": each, "text": f"<answer>{text}</answer>"} for each, text, *_ in (*cheats, *honest)]
    found = judged(python, cases, require_sound=False)
    assert not made.exists()
    assert all(one.get("reward", 0.0) <= 0.05 for one in found[: len(cheats)]), found
    assert [one.get("reward") for one in found[len(cheats) :]] == [reward for *_, reward in honest]


@pytest.mark.slow
def test_an_answer_of_long_characters_fits_beside_a_long_entry(python: str) -> None:
    long = row(notes="n" * 79_000)
    cases = [{"row": long, "text": char * 8000} for char in ("\U0001f600", "\0", "\ud800")]
    found = judged(python, [*cases, {"row": row(notes="n" * 81_000), "text": "7"}])
    assert [one.get("reward") for one in found[:3]] == [pytest.approx(0.0, abs=0.05)] * 3, found
    assert (found[3].get("owner"), found[3].get("kind")) == ("row", "task_invalid")


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
        ("\\boxed{} \\boxed{a", "\\boxed{} \\boxed{a"),
        ("\\boxed{} \\boxed{a}", "a"),
        ("\\boxed{" * 100_000, "\\boxed{" * 100_000),
        ("<answer>" * 20_000, "<answer>" * 20_000),
        ("</answer>" * 20_000, "</answer>" * 20_000),
    ],
)
def test_the_answer_is_the_last_in_its_tag(text: str, answer: str) -> None:
    assert answer_of(make_response([message_item(text)], {}, model="policy")) == answer
