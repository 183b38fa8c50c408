"""The task of `pivot_mined`: which of its steps the starting policy can be rewarded for; and what its curves are."""

import json
from collections import Counter
from statistics import fmean

import pytest
from benchmarks.pivot_mined.curves import KIND_OF_STEP, HeldOutReward, RunCurves, compare, held_out_curves
from benchmarks.pivot_mined.task import candidates_of, make_trajectories, policy_answers

from paddock.resources_servers.pivot import semantic
from paddock.resources_servers.pivot.mining.candidates import PivotCandidate
from paddock.resources_servers.pivot.mining.rows import row_of
from paddock.resources_servers.pivot.task import read_expected
from paddock.types.responses import call_item, make_response

MEANS = {"easy": 1.0, "pivot": 1 / 4, "hard": 0.0}


def mean_reward(candidate: PivotCandidate) -> float:
    """The mean of the rewards that the server gives the starting policy's answers."""
    row = row_of(candidate)
    expected, params = read_expected(row), row["responses_create_params"]
    actions = [call_item("bash", json.dumps({"command": command})) for command in policy_answers(candidate)]
    responses = [make_response([action], params, model="policy") for action in actions]
    return fmean(semantic.compare(expected, response, params).reward for response in responses)


def test_the_starting_policy_is_always_right_always_wrong_or_right_by_chance() -> None:
    split = make_trajectories()
    found = candidates_of(split.mined)
    assert Counter(KIND_OF_STEP[one.step] for one in found) == {"easy": 192, "pivot": 96, "hard": 96}
    for candidate in found[::7]:
        assert mean_reward(candidate) == pytest.approx(MEANS[KIND_OF_STEP[candidate.step]])


def test_no_held_out_step_after_the_first_has_the_history_of_a_mined_one() -> None:
    split = make_trajectories()
    mined = {json.dumps(row_of(one)["responses_create_params"]) for one in candidates_of(split.mined)}
    held_out = candidates_of(split.held_out)
    assert len(held_out) == 128
    assert not any(json.dumps(row_of(one)["responses_create_params"]) in mined for one in held_out if one.step)


def test_curves_are_means_by_kind_of_step_and_over_seeds() -> None:
    rewards = {0: {"easy": 1.0, "pivot": 0.0, "hard": 0.0}, 9: {"easy": 1.0, "pivot": 1.0, "hard": 0.0}}
    curves = held_out_curves([HeldOutReward(kind, step, own[kind]) for step, own in rewards.items() for kind in own])
    assert curves["all"] == {0: pytest.approx(1 / 3), 9: pytest.approx(2 / 3)}
    assert (curves["easy"], curves["pivot"], curves["hard"]) == ({0: 1, 9: 1}, {0: 0, 9: 1}, {0: 0, 9: 0})
    other = {name: dict.fromkeys(curve, 0.0) for name, curve in curves.items()}
    runs = [RunCurves("mined", 0, curves, (0.5, 0.0), ()), RunCurves("mined", 1, other, (1.0, 1.0), ())]
    figures = compare(runs)
    assert figures["held_out_pivots"][-1] == {"step": 9, "mined": 0.5, "mined-0": 1.0, "mined-1": 0.0}
    assert [run["alike"] for run in figures["runs"]] == [0.25, 1.0]
