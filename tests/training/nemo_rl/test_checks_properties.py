"""Claims about any rollout: its inline form is accepted whatever its turns are, and rejected when it is changed."""

import math
from copy import deepcopy
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tokens.test_export_inline import records, rollout

from paddock.tokens import inline
from paddock.training.nemo_rl.checks import check_result, check_results
from paddock.training.nemo_rl.postprocess import postprocess
from paddock.types import OUTCOMES, JsonObject, Outcome, TurnRecord

SAMPLED = ("generation_token_ids", "generation_log_probs")


@st.composite
def exported(draw: st.DrawFn) -> JsonObject:
    record: TurnRecord = draw(records())
    outcome: Outcome = draw(st.sampled_from(OUTCOMES))
    return inline(rollout(*record.turns, outcome=outcome, engine=record.engine, output=record.turns[0].output))


@given(exported())
def test_what_is_exported_is_accepted_and_processed(result: JsonObject) -> None:
    assert check_result(result) == []
    found = postprocess(result)
    assert found.masked == result["instance_config"]["mask_sample"]
    assert [one.role for one in found.messages[:2]] == ["user", "assistant"]


@settings(max_examples=40)
@given(st.lists(exported(), max_size=4))
def test_failed_members_join_no_group(results: list[JsonObject]) -> None:
    """Whatever else is wrong between rollouts that have nothing to do with each other."""
    rules = {one.violation.rule for one in check_results(results)}
    assert rules <= {"group_prompt", "group_alone"}


def turns(result: JsonObject) -> list[JsonObject]:
    return [item for item in result["response"]["output"] if item.get("generation_token_ids")]


@given(exported(), st.data())
def test_one_wrong_number_is_found_where_it_is(result: JsonObject, data: st.DataObject) -> None:
    """Ids and log-probs of any turn, at any place."""
    items = turns(result)
    nth = data.draw(st.integers(0, len(items) - 1))
    item = items[nth]
    name = data.draw(st.sampled_from(["prompt_token_ids", *SAMPLED]))
    place = data.draw(st.integers(0, len(item[name]) - 1))
    wrong: Any = data.draw(st.sampled_from([None, "1", 0.5, -1, math.inf, math.nan, True]))
    assume(name != "generation_log_probs" or wrong not in (0.5, -1))
    before = sum(len(items[nth - 1][one]) for one in ("prompt_token_ids", "generation_token_ids")) if nth else 0
    item[name][place] = wrong
    found = check_result(result)[0]
    # What comes after is compared with it, but it is said first.
    assert (found.turn, found.token) == (nth, place)
    seen_before = name == "prompt_token_ids" and place < before
    names = {"contiguous"} if seen_before else {"integer_ids", "known_ids", "log_prob_numbers", "log_probs_finite"}
    assert found.rule in names


@settings(max_examples=40)
@given(exported(), st.data())
def test_lists_of_other_lengths_are_found(result: JsonObject, data: st.DataObject) -> None:
    item = data.draw(st.sampled_from(turns(result)))
    item["generation_log_probs"].append(-0.5)
    assert [one.rule for one in check_result(result)] == ["log_probs_length"]


@settings(max_examples=40)
@given(exported(), st.data())
def test_a_turn_that_is_told_again_is_not_contiguous(result: JsonObject, data: st.DataObject) -> None:
    items = turns(result)
    nth = data.draw(st.integers(0, len(items) - 1))
    result["response"]["output"].append(deepcopy(items[nth]))
    (found,) = check_result(result)
    assert (found.rule, found.turn) == ("contiguous", len(items))
