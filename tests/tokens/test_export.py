"""Claims about samples: each sampled id is trained on once, on what the model saw, and nothing is made up."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.tokens import Mode, Sample, full_prompt, place, samples, skipped
from paddock.types import Engine, Turn, TurnRecord

MODES: tuple[Mode, ...] = get_args(Mode)
Ids = list[int]


def turn(turn_id: str, parent: str | None, prompt: Ids | None, sampled: Ids | None, **known: Any) -> Turn:
    fields: dict[str, Any] = {
        "log_probs": None if sampled is None else [-0.5 - nth for nth in range(len(sampled))],
        "weight_version": f"w{turn_id}",
        "finish_reason": "stop",
        "request_hash": "",
        "output": [],
    }
    return Turn(id=turn_id, parent=parent, prompt_ids=prompt, sampled_ids=sampled, **{**fields, **known})


@st.composite
def trees(draw: st.DrawFn) -> TurnRecord:
    """Rollouts whose prompts go on, branch and begin anew; some turns lack ids or log-probs, some sampled nothing."""
    turns: list[Turn] = []
    seen: list[Ids] = [[]]
    fresh = iter(range(10_000))
    for number in range(draw(st.integers(0, 9))):
        prompt = draw(st.sampled_from(seen)) + [next(fresh) for _ in range(draw(st.integers(0, 2)))]
        sampled = [next(fresh) for _ in range(draw(st.integers(0, 3)))]
        kind = draw(st.sampled_from(["whole", "whole", "whole", "whole", "no ids", "no log-probs"]))
        if kind == "no ids":
            parent = draw(st.sampled_from([None, *(each.id for each in turns)]))
            turns.append(turn(str(number), parent, None, None))
            continue
        placed = place(turns, prompt)
        known: dict[str, Any] = {"log_probs": None} if kind == "no log-probs" else {}
        turns.append(turn(str(number), placed.parent, placed.prompt_ids, sampled, **known))
        seen.append(prompt + sampled)
    return TurnRecord(engine="exact", turns=turns)


def trained(found: Iterable[Sample]) -> Counter[str]:
    """By turn, in how many samples it is trained on."""
    return Counter(span.turn for sample in found for span in sample.spans if span.trained)


@given(trees(), st.sampled_from(MODES))
def test_each_turn_is_trained_on_exactly_once_or_is_skipped(record: TurnRecord, mode: Mode) -> None:
    counts = trained(samples(record, mode))
    left_out = [turn.turn for turn in skipped(record)]
    assert set(counts.values()) <= {1}
    assert sorted([*counts, *left_out]) == sorted(turn.id for turn in record.turns)


@given(trees(), st.sampled_from(MODES))
def test_the_mask_is_on_the_sampled_ids_of_the_turns_that_are_trained_on(record: TurnRecord, mode: Mode) -> None:
    turns = {turn.id: turn for turn in record.turns}
    for sample in samples(record, mode):
        masked = [index for index, on in enumerate(sample.loss_mask) if on]
        spans = [span for span in sample.spans if span.trained]
        assert masked == [index for span in spans for index in range(span.start, span.end)]
        assert sample.prompt_length == masked[0]
        assert all(on or not log_prob for on, log_prob in zip(sample.loss_mask, sample.log_probs, strict=True))
        for span in sample.spans:
            assert sample.ids[span.start : span.end] == turns[span.turn].sampled_ids
            assert not span.trained or sample.log_probs[span.start : span.end] == turns[span.turn].log_probs
            assert span.weight_version == turns[span.turn].weight_version


@given(trees(), st.sampled_from(MODES))
def test_what_stands_before_a_sampled_span_is_what_the_model_saw(record: TurnRecord, mode: Mode) -> None:
    for sample in samples(record, mode):
        for span in sample.spans:
            assert sample.ids[: span.start] == full_prompt(record.turns, span.turn)


@given(trees())
def test_a_dynamic_history_has_a_sample_per_turn_that_ends_with_it(record: TurnRecord) -> None:
    left_out = {turn.turn for turn in skipped(record)}
    found = list(samples(record, "dynamic_history"))
    assert [sample.spans[-1].turn for sample in found] == [turn.id for turn in record.turns if turn.id not in left_out]
    for sample in found:
        assert sample.ids[sample.prompt_length :] == sample.ids[sample.spans[-1].start :]
        assert sample.spans[-1].end == len(sample.ids)


@given(trees())
def test_a_trajectory_has_a_sample_per_leaf_and_none_is_the_beginning_of_another(record: TurnRecord) -> None:
    found = [[span.turn for span in sample.spans] for sample in samples(record, "trajectory")]
    for path in found:
        assert not any(path is not other and other[: len(path)] == path for other in found)


def test_a_shared_beginning_is_trained_on_in_the_first_leaf_only() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("3", "1", [5], [6])]
    first, second = samples(TurnRecord(engine="exact", turns=turns), "trajectory")
    assert (first.ids, first.loss_mask) == ([1, 2, 3, 4], [0, 1, 0, 1])
    assert (second.ids, second.loss_mask) == ([1, 2, 5, 6], [0, 0, 0, 1])
    assert second.log_probs == [0, 0, 0, -0.5]
    assert [(span.turn, span.trained, span.weight_version) for span in second.spans] == [
        ("1", False, "w1"),
        ("3", True, "w3"),
    ]


def test_turns_that_cant_be_trained_on_are_named_with_the_reason() -> None:
    turns = [
        turn("whole", None, [1], [2]),
        turn("without ids", "whole", None, None),
        turn("after it", "without ids", [3], [4]),
        turn("empty", "whole", [3], []),
        turn("without log-probs", "whole", [3], [4], log_probs=None),
    ]
    record = TurnRecord(engine="spliced", turns=turns)
    assert skipped(record) == [
        ("without ids", "no_ids"),
        ("after it", "no_ids_before"),
        ("empty", "nothing_sampled"),
        ("without log-probs", "no_log_probs"),
    ]
    for mode in MODES:
        assert [sample.ids for sample in samples(record, mode)] == [[1, 2]]


@pytest.mark.parametrize("engine", get_args(Engine))
def test_a_text_engine_proves_nothing_whatever_ids_it_gives(engine: Engine) -> None:
    record = TurnRecord(engine=engine, turns=[turn("1", None, [1], [2])])
    assert [len(list(samples(record, mode))) for mode in MODES] == ([0, 0] if engine == "text" else [1, 1])
    assert skipped(record) == ([("1", "engine_text")] if engine == "text" else [])


def test_an_unknown_mode_is_an_error_that_names_the_modes() -> None:
    with pytest.raises(ValueError, match="trajectory, dynamic_history"):
        samples(TurnRecord(engine="exact", turns=[]), "turns")  # type: ignore[arg-type]


def test_a_sample_is_aligned() -> None:
    with pytest.raises(ValidationError, match="2 ids, 1 in the mask"):
        Sample(ids=[1, 2], loss_mask=[1], log_probs=[0.0, 0.0], spans=[])
