"""Claims about samples: each sampled id is trained on once, on what the model saw, and nothing is made up."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock.tokens import Mode, RolloutSample, Sample, full_prompt, place, rollout_samples, samples, skipped
from paddock.tokens.export import Summary, plan, plan_rollout
from paddock.types import (
    OUTCOMES,
    REWARDED,
    Engine,
    Failure,
    Outcome,
    Rollout,
    Row,
    Turn,
    TurnRecord,
    Usage,
    Verdict,
    WeightSpan,
)

MODES: tuple[Mode, ...] = get_args(Mode)
Ids = list[int]
STAMPS = {"_paddock_run_id": "run", "_ng_task_index": 3, "_paddock_group_size": 2, "_ng_rollout_index": 1}


def turn(turn_id: str, parent: str | None, prompt: Ids | None, sampled: Ids | None, **known: Any) -> Turn:
    fields: dict[str, Any] = {
        "log_probs": None if sampled is None else [-0.5 - nth for nth in range(len(sampled))],
        "weight_version": f"w{turn_id}",
        "finish_reason": "stop",
        "request_hash": "",
        "output": [],
    }
    return Turn(id=turn_id, parent=parent, prompt_ids=prompt, sampled_ids=sampled, **{**fields, **known})


KINDS = ["whole", "whole", "whole", "whole", "no ids", "no log-probs", "other counts", "astray", "twice"]


@st.composite
def trees(draw: st.DrawFn) -> TurnRecord:
    """Rollouts whose prompts go on, branch and begin anew. Some turns lack ids or log-probs, sampled nothing, were
    counted otherwise, name a parent that is not there or an id that is taken; some had several weights."""
    turns: list[Turn] = []
    fitting: list[Turn] = []
    seen: list[Ids] = [[]]
    fresh = iter(range(10_000))
    for number in range(draw(st.integers(0, 9))):
        prompt = draw(st.sampled_from(seen)) + [next(fresh) for _ in range(draw(st.integers(0, 2)))]
        sampled = [next(fresh) for _ in range(draw(st.integers(0, 3)))]
        kind = draw(st.sampled_from(KINDS))
        if kind == "no ids":
            parent = draw(st.sampled_from([None, *(each.id for each in fitting)]))
            fitting.append(turn(str(number), parent, None, None))
            turns.append(fitting[-1])
            continue
        if kind in ("astray", "twice"):
            taken = kind == "twice" and fitting
            turns.append(
                turn(fitting[0].id if taken else str(number), None if taken else str(number + 1), prompt, sampled)
            )
            continue
        placed = place(fitting, prompt)
        counts = Usage(input_tokens=len(prompt), output_tokens=len(sampled) + (kind == "other counts"))
        known: dict[str, Any] = {"usage": draw(st.sampled_from([counts, None])) if kind == "whole" else counts}
        known |= {"log_probs": None} if kind == "no log-probs" else {}
        if len(sampled) > 1 and draw(st.booleans()):
            cut = draw(st.integers(1, len(sampled) - 1))
            known |= {"weight_version": "w2", "weight_spans": versions({"w1": cut, "w2": len(sampled) - cut})}
        fitting.append(turn(str(number), placed.parent, placed.prompt_ids, sampled, **known))
        turns.append(fitting[-1])
        seen.append(prompt + sampled)
    return TurnRecord(engine=draw(st.sampled_from(["exact", "exact", "spliced", "text"])), turns=turns)


def versions(lengths: dict[str, int]) -> list[WeightSpan]:
    found: list[WeightSpan] = []
    for version, length in lengths.items():
        start = found[-1].end if found else 0
        found.append(WeightSpan(version=version, start=start, end=start + length))
    return found


def trained(found: Iterable[Sample]) -> Counter[str]:
    """By turn, in how many samples it is trained on."""
    return Counter(name for sample in found for name in {span.turn for span in sample.spans if span.trained})


@given(trees(), st.sampled_from(MODES))
def test_each_turn_is_trained_on_exactly_once_or_is_skipped(record: TurnRecord, mode: Mode) -> None:
    counts = trained(samples(record, mode))
    left_out = [turn.turn for turn in skipped(record, mode)]
    assert set(counts.values()) <= {1}
    assert sorted([*counts, *left_out]) == sorted(turn.id for turn in record.turns)


@given(trees(), st.sampled_from(MODES))
def test_each_sampled_id_is_trained_on_exactly_once_or_its_turn_is_skipped(record: TurnRecord, mode: Mode) -> None:
    on = Counter(
        name
        for sample in samples(record, mode)
        for name, mask in zip(sample.ids, sample.loss_mask, strict=True)
        if mask
    )
    left_out = Counter(turn.turn for turn in skipped(record, mode))
    expected: Counter[int] = Counter()
    for each in reversed(record.turns):
        if left_out[each.id]:
            left_out[each.id] -= 1
        else:
            expected.update(each.sampled_ids or ())
    assert set(on.values()) <= {1}
    assert on == expected


@given(trees(), st.sampled_from(MODES))
def test_nothing_of_a_text_engine_is_trained_on(record: TurnRecord, mode: Mode) -> None:
    text = record.model_copy(update={"engine": "text"})
    assert list(samples(text, mode)) == []
    assert skipped(text, mode) == [(turn.id, "engine_text") for turn in record.turns]


@given(trees(), st.sampled_from(MODES))
def test_a_plan_counts_what_the_samples_hold(record: TurnRecord, mode: Mode) -> None:
    planned = plan(record, mode)
    found = list(planned.make())
    assert planned.tokens == sum(len(sample.ids) for sample in found)
    assert planned.trained_tokens == sum(sum(sample.loss_mask) for sample in found)
    assert planned.distinct_tokens == len({sample_id for sample in found for sample_id in sample.ids})


@given(trees(), st.sampled_from(MODES))
def test_the_mask_is_on_the_sampled_ids_of_the_turns_that_are_trained_on(record: TurnRecord, mode: Mode) -> None:
    turns = first_by_id(record)
    for sample in samples(record, mode):
        masked = [index for index, on in enumerate(sample.loss_mask) if on]
        spans = [span for span in sample.spans if span.trained]
        assert masked == [index for span in spans for index in range(span.start, span.end)]
        assert sample.prompt_length == masked[0]
        assert all(on or not log_prob for on, log_prob in zip(sample.loss_mask, sample.log_probs, strict=True))
        assert sample.finish_reason == turns[sample.turns[-1]].finish_reason
        for name in sample.turns:
            said, spans = turns[name], [span for span in sample.spans if span.turn == name]
            start, end = spans[0].start, spans[-1].end
            assert sample.ids[start:end] == said.sampled_ids
            assert not spans[0].trained or sample.log_probs[start:end] == said.log_probs
            expected = said.weight_spans or versions({f"w{name}": len(said.sampled_ids or [])})
            assert [(s.weight_version, s.start, s.end) for s in spans] == [
                (part.version, start + part.start, start + part.end) for part in expected
            ]


def first_by_id(record: TurnRecord) -> dict[str, Turn]:
    return {turn.id: turn for turn in reversed(record.turns)}


@given(trees(), st.sampled_from(MODES))
def test_what_stands_before_a_sampled_span_is_what_the_model_saw(record: TurnRecord, mode: Mode) -> None:
    for sample in samples(record, mode):
        for name in sample.turns:
            start = next(span.start for span in sample.spans if span.turn == name)
            assert sample.ids[:start] == full_prompt(first_by_id(record).values(), name)


@given(trees())
def test_a_dynamic_history_has_a_sample_per_turn_that_ends_with_it(record: TurnRecord) -> None:
    found = list(samples(record, "dynamic_history"))
    assert [Counter(sample.turns[-1:]) for sample in found] == [trained([sample]) for sample in found]
    for sample in found:
        first, last = (next(span for span in part if span.trained) for part in (sample.spans, sample.spans[::-1]))
        assert sample.prompt_length == first.start
        assert last.end == len(sample.ids)


@given(trees())
def test_there_is_a_branch_per_leaf_and_none_is_the_beginning_of_another(record: TurnRecord) -> None:
    found = [sample.turns for sample in samples(record, "branch")]
    for path in found:
        assert not any(path is not other and other[: len(path)] == path for other in found)


@given(trees())
def test_the_whole_is_the_path_to_the_last_turn_and_the_others_are_off_it(record: TurnRecord) -> None:
    found = list(samples(record, "whole"))
    assert len(found) <= 1
    # A turn whose id was taken is beside the path, and the one that has the id may be on it.
    left_out = {turn for turn, reason in skipped(record, "whole") if reason != "misplaced"}
    ancestors = path_to_the_last(record)
    for sample in found:
        assert sample.turns == [name for name in ancestors if name in sample.turns]
        assert set(trained(found)) == {name for name in ancestors if name not in left_out}
        assert sample.turns[-1] in trained(found)
    off = {turn for turn, reason in skipped(record, "whole") if reason == "off_path"}
    assert off == set(trained(samples(record, "branch"))) - set(trained(found))
    assert not off.intersection(ancestors)


def path_to_the_last(record: TurnRecord) -> list[str]:
    """Root first; empty where the last turn does not fit into the record."""
    before: dict[str, Turn] = {}
    for each in record.turns:
        fits = each.id not in before and (each.parent is None or each.parent in before)
        if fits:
            before[each.id] = each
    if not record.turns or before.get(record.turns[-1].id) is not record.turns[-1]:
        return []
    path = [record.turns[-1]]
    while path[0].parent is not None:
        path.insert(0, before[path[0].parent])
    return [each.id for each in path]


@given(trees())
def test_a_chain_is_trained_on_from_the_first_prompt_on(record: TurnRecord) -> None:
    found = list(samples(record, "chain"))
    assert len(found) <= 1
    first = record.turns[0].prompt_ids if record.turns else None
    branches = list(samples(record, "branch"))
    if first and record.turns[0].id in trained(branches):
        assert found
    for sample in found:
        assert sample.ids[: sample.prompt_length] == first
        assert any(one.turns[: len(sample.turns)] == sample.turns for one in branches)
    assert {turn for turn, reason in skipped(record, "chain") if reason == "off_path"} == (
        set(trained(branches)) - set(trained(found))
    )


CHAINS: dict[str, tuple[list[Turn], Ids]] = {
    "one path": ([turn("1", None, [1], [2]), turn("2", "1", [3], [4])], [1, 2, 3, 4]),
    "a title after it": ([turn("1", None, [1], [2]), turn("title", None, [8], [9, 9, 9])], [1, 2]),
    "a sub-agent with more tokens": (
        [turn("1", None, [1], [2]), turn("sub", None, [8], [9] * 9), turn("2", "1", [3], [4])],
        [1, 2, 3, 4],
    ),
    "a sub-agent at the end": (
        [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("sub", None, [8], [9] * 9)],
        [1, 2, 3, 4],
    ),
    "a history that was summed up": (
        [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("3", None, [1, 8], [9] * 9)],
        [1, 2, 3, 4],
    ),
    "a call that was made again": (
        [turn("1", None, [1], [2]), turn("2", "1", [3], [4] * 9), turn("again", "1", [3], [5])],
        [1, 2, 3, 5],
    ),
    "the first call made again": (
        [turn("1", None, [1], [2] * 9), turn("again", None, [1], [5]), turn("2", "again", [6], [7])],
        [1, 5, 6, 7],
    ),
    "an end that can't be trained on": ([turn("1", None, [1], [2]), turn("2", "1", None, None)], [1, 2]),
    "made again, and nothing to train on": (
        [turn("1", None, [1], [2]), turn("again", None, [1], [3], log_probs=None), turn("2", "again", [4], [5])],
        [1, 2],
    ),
    "an end beside the path": (
        [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("empty", "1", [5], [])],
        [1, 2, 3, 4],
    ),
}
CHAINLESS: dict[str, list[Turn]] = {
    "none": [],
    "a first turn without ids": [turn("1", None, None, None), turn("2", None, [1], [2])],
    "a first turn without log-probs": [turn("1", None, [1], [2], log_probs=None), turn("2", "1", [3], [4])],
    "a first prompt without ids": [turn("1", None, [], [2])],
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_chain_of_a_rollout_that_branches(name: str) -> None:
    turns, ids = CHAINS[name]
    (sample,) = samples(TurnRecord(engine="exact", turns=turns), "chain")
    assert sample.ids == ids


@pytest.mark.parametrize("name", CHAINLESS)
def test_without_a_first_prompt_that_others_have_too_there_is_no_chain(name: str) -> None:
    assert list(samples(TurnRecord(engine="exact", turns=CHAINLESS[name]), "chain")) == []


def test_a_shared_beginning_is_trained_on_in_the_first_leaf_only() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("3", "1", [5], [6])]
    first, second = samples(TurnRecord(engine="exact", turns=turns), "branch")
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
        turn("broken", None, [1, 2, 3], [4], splice_broken=True),
        turn("after the break", "broken", [5], [6]),
        turn("empty", "whole", [3], []),
        turn("without log-probs", "whole", [3], [4], log_probs=None),
        turn("a shorter prompt was counted", "whole", [3], [4], usage=Usage(input_tokens=2, output_tokens=1)),
        turn("more was counted", "whole", [3], [4], usage=Usage(input_tokens=3, output_tokens=2)),
        turn("nothing was counted", "whole", [3], [], usage=Usage()),
        turn("whole", None, [8], [9]),
        turn("astray", "later", [8], [9]),
        turn("later", "without log-probs", [5], []),
    ]
    record = TurnRecord(engine="spliced", turns=turns)
    for mode in MODES:
        assert skipped(record, mode) == [
            ("without ids", "no_ids"),
            ("after it", "no_ids_before"),
            ("broken", "splice_broken"),
            ("after the break", "no_ids_before"),
            ("empty", "nothing_sampled"),
            ("without log-probs", "no_log_probs"),
            ("a shorter prompt was counted", "lengths_differ"),
            ("more was counted", "lengths_differ"),
            ("nothing was counted", "nothing_sampled"),
            ("whole", "misplaced"),
            ("astray", "misplaced"),
            ("later", "nothing_sampled"),
        ]
        assert [sample.ids for sample in samples(record, mode)] == [[1, 2]]


def test_a_turn_that_begins_anew_after_missing_ids_is_a_sample_of_its_own() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", None, None), turn("3", None, [1, 2, 7], [8])]
    record = TurnRecord(engine="exact", turns=turns)
    assert [sample.ids for sample in samples(record, "branch")] == [[1, 2], [1, 2, 7, 8]]
    assert [sample.ids for sample in samples(record, "whole")] == [[1, 2, 7, 8]]
    assert skipped(record, "whole") == [("1", "off_path"), ("2", "no_ids")]


def test_a_turn_without_its_own_log_probs_is_context_of_those_after_it() -> None:
    turns = [turn("1", None, [1], [2], log_probs=None), turn("2", "1", [3], [4])]
    for mode in set(MODES) - {"chain"}:
        (sample,) = samples(TurnRecord(engine="exact", turns=turns), mode)
        assert (sample.ids, sample.loss_mask, sample.log_probs) == ([1, 2, 3, 4], [0, 0, 0, 1], [0, 0, 0, -0.5])
        assert [(span.turn, span.trained) for span in sample.spans] == [("1", False), ("2", True)]


def test_a_turn_of_several_weights_has_a_span_for_each() -> None:
    spans = versions({"w1": 1, "w2": 2})
    turns = [turn("1", None, [1], [2, 3, 4], weight_version="w2", weight_spans=spans)]
    (sample,) = samples(TurnRecord(engine="exact", turns=turns), "whole")
    assert [(span.start, span.end, span.weight_version) for span in sample.spans] == [(1, 2, "w1"), (2, 4, "w2")]
    assert sample.turns == ["1"]


@pytest.mark.parametrize("engine", get_args(Engine))
def test_a_text_engine_proves_nothing_whatever_ids_it_gives(engine: Engine) -> None:
    record = TurnRecord(engine=engine, turns=[turn("1", None, [1], [2])])
    for mode in MODES:
        assert len(list(samples(record, mode))) == (0 if engine == "text" else 1)
        assert skipped(record, mode) == ([("1", "engine_text")] if engine == "text" else [])


def test_an_unknown_mode_is_an_error_that_names_the_modes() -> None:
    with pytest.raises(ValueError, match="whole, branch, dynamic_history"):
        samples(TurnRecord(engine="exact", turns=[]), "turns")  # type: ignore[arg-type]


def test_a_sample_is_aligned() -> None:
    with pytest.raises(ValidationError, match="2 ids, 1 in the mask"):
        Sample(ids=[1, 2], loss_mask=[1], log_probs=[0.0, 0.0], spans=[])


def rollout(outcome: Outcome = "completed", engine: Engine | None = "exact", turns: Sequence[Turn] = ()) -> Rollout:
    rewarded = outcome in REWARDED
    return Rollout(
        row=Row.from_wire({**STAMPS, "responses_create_params": {"input": []}, "instance_id": "one"}),
        outcome=outcome,
        engine=engine,
        turns=list(turns),
        verdict=Verdict(reward=1.0, reason="x") if rewarded else None,
        failure=None if rewarded else Failure(owner="infra", kind="x", message=""),
    )


def test_a_rollouts_samples_have_its_stamps_and_its_reward_and_are_counted() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("3", "1", [5], [6], finish_reason="length")]
    first, second = rollout_samples(rollout(turns=turns), "branch")
    assert (first.index, first.count, second.index, second.count) == (0, 2, 1, 2)
    assert (first.cut, second.cut) == (False, True)
    wire = second.to_wire()
    assert {key: wire[key] for key in STAMPS} == STAMPS
    assert (wire["row"], wire["outcome"], wire["reward"], wire["engine"], wire["mode"]) == (
        "one",
        "completed",
        1.0,
        "exact",
        "branch",
    )
    assert (wire["ids"], wire["loss_mask"]) == ([1, 2, 5, 6], [0, 0, 0, 1])


@given(trees(), st.sampled_from(MODES), st.sampled_from(OUTCOMES))
def test_a_line_is_read_back_as_it_was_written(record: TurnRecord, mode: Mode, outcome: Outcome) -> None:
    for sample in rollout_samples(rollout(outcome, record.engine, record.turns), mode):
        assert RolloutSample.from_wire(orjson.loads(orjson.dumps(sample.to_wire()))) == sample
        assert (sample.reward is None) == (outcome not in REWARDED)
        assert sample.cut == (outcome == "truncated")


def test_without_an_engine_nothing_is_proven() -> None:
    assert list(rollout_samples(rollout(engine=None, turns=[turn("1", None, [1], [2])]), "whole")) == []


def test_a_summary_counts_samples_skipped_turns_and_outcomes() -> None:
    turns = [turn("1", None, [1], [2]), turn("2", "1", [3], [4]), turn("3", "1", [5], [6]), turn("4", "3", None, None)]
    summary = Summary()
    summary.left_out("infra")
    summary.add("truncated", plan_rollout(rollout("truncated", turns=turns), "branch"))
    summary.add("completed", plan_rollout(rollout(engine="text", turns=turns), "branch"))
    assert (summary.rollouts, summary.samples, summary.without_sample, summary.cut) == (3, 2, 1, 1)
    assert (summary.tokens, summary.trained_tokens, summary.distinct_tokens) == (8, 3, 6)
    assert summary.prefix_factor == pytest.approx(8 / 6)
    assert summary.skipped == {"no_ids": 1, "engine_text": 4}
    assert summary.outcomes == {"infra": 1}
    assert Summary().prefix_factor == 0
