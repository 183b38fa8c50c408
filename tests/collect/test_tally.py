"""Claims about what a summary says beside the reward: reasons, results, labels, variants, comparisons, their text."""

from typing import Any

import pytest

from paddock.collect.identity import AgentIdentity
from paddock.collect.report import MAX_WORDS, comparison_lines, part_tables, summary_rows
from paddock.collect.results import MemberKey, RolloutResult, harness_report, result_of
from paddock.collect.tally import Board, Pace
from paddock.types import JsonObject, Rollout, Row, Stamp, Usage, Verdict

SWE = AgentIdentity(environment="swe", harness="mixed", model="m")


def result(group: int, member: int = 0, reward: float | None = 1.0, **more: Any) -> RolloutResult:
    outcome = "infra" if reward is None else "completed"
    base = {"group_id": group, "member": member, "agent": "a", "row_name": f"row-{group}", "outcome": outcome}
    return RolloutResult.model_validate({**base, "reward": reward, **more})


def summary(*results: RolloutResult, **agents: AgentIdentity) -> list[JsonObject]:
    board = Board()
    board.add_all(results)
    return board.summary(agents or {"a": SWE}, Pace(1.0, len(results)))


def test_reasons_and_what_ended_rollouts_are_counted_and_failures_are_not() -> None:
    (run,) = summary(
        result(0, reason="resolved", ended="finished"),
        result(1, reward=0.0, reason="no_patch", ended="turn_limit"),
        result(2, reward=0.0, reason="no_patch", ended="turn_limit"),
        result(3, reward=None),
    )
    assert run["reasons"] == {"no_patch": 2, "resolved": 1}
    assert run["ended"] == {"turn_limit": 2, "finished": 1}
    text = dict(summary_rows(run))
    assert text["reasons"] == "no_patch 2 (66.7 %)  resolved 1 (33.3 %)"
    assert text["passed"].startswith("0.333  [")
    assert text["outcomes"] == "completed 3  infra 1"


def test_where_steps_are_rewarded_a_rollout_passes_by_its_outcome() -> None:
    (run,) = summary(
        result(0, reward=0.75, metrics={"outcome_reward": 1.0}), result(1, reward=1.25, metrics={"outcome_reward": 0.0})
    )
    assert (run["mean_reward"], run["pass_rate"]) == (1.0, 0.5)


def test_a_reward_below_0_lowers_the_mean_and_is_no_pass() -> None:
    bent = {"tests_forged": 1.0}, {"tests_forged": 0.0}
    (run,) = summary(
        result(0, 0, reason="resolved", metrics=bent[1]),
        result(0, 1, reward=-1.0, reason="tests_forged", metrics=bent[0]),
        result(1, 0, reward=-1.0, reason="tests_forged", metrics=bent[0]),
        result(1, 1, reward=0.0, reason="tests_fail", metrics=bent[1]),
    )
    assert (run["mean_reward"], run["pass_rate"], run["pass_at_k"]) == (-0.25, 0.25, {"1": 0.25, "2": 0.5})
    assert run["metrics"]["tests_forged"] == 0.5
    text = dict(summary_rows(run))
    assert text["reward"].startswith("-0.250  [")
    assert "tests_forged 2 (50.0 %)" in text["reasons"]


def test_malformed_calls_are_a_mean_over_those_who_tell() -> None:
    told = [result(group, ended="finished", malformed={"bad_json": group}) for group in range(4)]
    (run,) = summary(*told, result(9))
    assert run["malformed_per_rollout"] == {"bad_json": 1.5}
    assert dict(summary_rows(run))["malformed"] == "bad_json 1.50 calls each"
    (silent,) = summary(result(9))
    assert "malformed" not in dict(summary_rows(silent))


def test_verdicts_of_weak_rows_are_counted() -> None:
    weak, strong = {"weak_row": 1.0}, {"weak_row": 0.0}
    (run,) = summary(
        *(result(group, reason="match", metrics=weak) for group in (0, 1)),
        *(result(group, reason="match", metrics=strong) for group in (2, 3, 4)),
    )
    assert run["n_weak"] == 2
    assert dict(summary_rows(run))["weak rows"] == "2 of 5 rollouts (40.0 %) are of rows that expect only words"
    (firm,) = summary(result(0, reason="match", metrics=strong))
    assert "weak rows" not in dict(summary_rows(firm))


def test_turns_and_tokens_are_given_per_rollout() -> None:
    usage = Usage(input_tokens=100, output_tokens=10)
    (run,) = summary(result(0, turns=3, usage=usage), result(1, turns=4, usage=usage), result(2, reward=None, turns=99))
    per_rollout = {"input": 100.0, "output": 10.0, "cached": 0.0, "reasoning": 0.0}
    assert (run["turns"], run["tokens_per_rollout"]) == (3.5, per_rollout)
    text = dict(summary_rows(run))
    assert (text["turns each"], text["tokens"]) == ("3.5", "200 in, 20 out, 100 and 10 each")


def test_cached_and_reasoning_tokens_are_parts_and_counted_once() -> None:
    usage = Usage(input_tokens=100, output_tokens=10, cached_tokens=80, reasoning_tokens=4)
    (run,) = summary(result(0, usage=usage), result(1, usage=usage))
    assert run["tokens"] == {"input": 200, "output": 20, "cached": 160, "reasoning": 8}
    tokens = dict(summary_rows(run))["tokens"]
    assert tokens == "200 in (160 cached), 20 out (8 reasoning), 100 and 10 each"
    older = {**run, "tokens": {"input": 200, "output": 20}}
    assert dict(summary_rows(older))["tokens"] == "200 in, 20 out, 100 and 10 each"


def test_a_cost_is_of_all_rollouts_or_not_given() -> None:
    (run,) = summary(result(0, cost_usd=0.5), result(1, cost_usd=1.25), result(2, reward=None))
    assert (run["cost_usd"], run["cost_usd_per_rollout"]) == (1.75, 0.875)
    assert dict(summary_rows(run))["cost"] == "1.75 USD, 0.875 USD each"
    (partly,) = summary(result(0, cost_usd=0.5), result(1))
    assert "cost_usd" not in partly
    assert "cost" not in dict(summary_rows(partly))


def test_labels_have_a_table_with_the_most_frequent_words_first() -> None:
    results = [
        result(10 * word + nth, reward=float(nth % 2), labels={"repo": f"repo-{word}"})
        for word in range(MAX_WORDS + 3)
        for nth in range(1 + word % 4)
    ]
    (run,) = summary(*results)
    assert run["labels"]["repo"]["repo-3"]["pass_rate"] == 0.5
    (table,) = part_tables(run)
    assert table.title == "by repo"
    assert len(table.rows) == MAX_WORDS + 1
    assert table.rows[0][:4] == ("repo-11", "4", "4", "0.500")
    assert table.rows[-1][0] == "and 3 more"


@pytest.mark.parametrize("repos", [("only", "only"), ("one", "other")])
def test_one_word_or_a_word_for_each_row_needs_no_table(repos: tuple[str, str]) -> None:
    (run,) = summary(*(result(group, labels={"repo": repo}) for group, repo in enumerate(repos)))
    assert list(part_tables(run)) == []
    assert set(run["labels"]["repo"]) == set(repos)


def test_variants_of_one_agent_are_compared_on_the_rows_that_both_worked_on() -> None:
    pairs = [(1.0, 0.0)] * 6 + [(1.0, 1.0)] * 3 + [(0.0, None)]
    results = [
        result(group, member, reward, variant=("codex", "opencode")[member] if reward is not None else None)
        for group, pair in enumerate(pairs)
        for member, reward in enumerate(pair)
    ]
    (run,) = summary(*results)
    assert {name: part["n_rollouts"] for name, part in run["variants"].items()} == {"codex": 10, "opencode": 9}
    (found,) = run["comparisons"]
    assert (found["first"], found["second"], found["n_rows"]) == ("a/codex", "a/opencode", 9)
    assert (found["first_rate"], found["second_rate"]) == (1.0, pytest.approx(1 / 3))
    assert (found["n_first_better"], found["p_value"]) == (6, pytest.approx(2 / 2**6))
    assert found["ci95"][0] > 0
    (head, line, _) = comparison_lines([run])
    assert head == "compared, row by row"
    assert line.startswith("  a/codex - a/opencode: +0.667 [+0.")
    assert line.endswith("1.000 and 0.333 on 9 rows, better on 6, worse on 0, p 0.031")


def test_variants_are_compared_by_whole_repositories_where_verdicts_name_them() -> None:
    results = [
        result(
            group, member, float(member == 0), variant=("codex", "opencode")[member], labels={"repo": f"r{group // 2}"}
        )
        for group in range(10)
        for member in range(2)
        if (group, member) != (9, 1)
    ]
    results.append(result(9, 1, 1.0, variant="opencode", labels={"repo": "r4"}))
    (run,) = summary(*results)
    (found,) = run["comparisons"]
    assert (found["n_rows"], found["n_repositories"], found["p_value"]) == (10, 5, None)
    (_, line, _) = comparison_lines([run])
    assert line.endswith("better on 9, worse on 0, too few repositories for a test over 5 repositories")


def test_agents_are_paired_by_the_names_of_rows_not_by_their_places() -> None:
    here = [result(group, reward=1.0, agent="a", row_name=f"r{group}") for group in range(3)]
    there = [result(10 + group, reward=0.0, agent="b", row_name=f"r{2 - group}") for group in range(3)]
    runs = summary(*here, *there, a=SWE, b=SWE)
    assert [len(run.get("comparisons", [])) for run in runs] == [1, 0]
    assert runs[0]["comparisons"][0]["n_rows"] == 3
    assert comparison_lines(summary(*here, *there, a=SWE, b=SWE.model_copy(update={"environment": "pivot"}))) == []


def test_rows_without_a_name_are_paired_with_none() -> None:
    runs = summary(result(0, row_name=None), result(0, agent="b", row_name=None), a=SWE, b=SWE)
    assert comparison_lines(runs) == []


@pytest.mark.parametrize(
    ("params", "task", "name"),
    [
        ({}, {"instance_id": "a__b-1", "uuid": "u"}, "a__b-1"),
        ({"metadata": {"instance_id": "inner"}}, {"uuid": "u"}, "inner"),
        ({"metadata": "text"}, {"uuid": "u"}, "u"),
        ({}, {"id": "i", "instance_id": 7}, "i"),
        ({}, {"id": 3}, None),
    ],
)
def test_a_row_has_the_name_that_its_data_set_gave_it(params: JsonObject, task: JsonObject, name: str | None) -> None:
    assert Row(responses_create_params={"input": [], **params}, task=task).name == name


def test_an_ending_keeps_what_the_agent_and_the_verifier_say() -> None:
    told = {"variant": "codex", "ended": "finished", "malformed": {"cut": 2, "bad_json": "many"}}
    rollout = Rollout(
        row=Row(responses_create_params={"input": []}, task={"instance_id": "x"}, stamp=Stamp(group_id=3, member=1)),
        outcome="completed",
        response={"output": [], "harness": told},
        verdict=Verdict(reward=1.0, reason="resolved", labels={"repo": "a/b"}),
    )
    found = result_of(rollout, MemberKey(3, 1))
    assert (found.row_name, found.reason, found.labels) == ("x", "resolved", {"repo": "a/b"})
    assert (found.variant, found.ended, found.malformed) == ("codex", "finished", {"cut": 2})


def test_calls_are_counted_by_tool_within_bounds() -> None:
    """Names are a model's: any number of any length."""
    names = ["bash"] * 3 + ["x" * 1000] * 2 + [f"tool_{n}" for n in range(100)]
    items = [{"type": "function_call", "name": name, "arguments": "", "call_id": "c"} for name in names]
    rollout = Rollout(
        row=Row(responses_create_params={"input": []}),
        outcome="completed",
        response={"output": [*items, {"type": "function_call", "name": 3}, {"type": "message"}]},
        verdict=Verdict(reward=1.0, reason="resolved"),
    )
    tools = result_of(rollout, MemberKey(0, 0)).tools
    assert len(tools) == 20
    assert (tools["bash"], tools["x" * 64]) == (3, 2)


@pytest.mark.parametrize("response", [None, {}, {"harness": None}, {"harness": []}, {"harness": {"variant": 3}}])
def test_an_agent_may_say_nothing_of_its_harness(response: JsonObject | None) -> None:
    assert harness_report(response) == (None, None, {})
