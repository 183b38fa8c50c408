"""What verl is given of a sample, without verl: split, cut and versions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.tokens.export import Sample, Span
from paddock.training.verl.engine import global_steps, weight_version
from paddock.training.verl.members import member_number
from paddock.training.verl.outputs import step_span, token_fields
from paddock.training.verl.rows import dataset_line, row_of, with_sampling
from paddock.training.verl.settings import ESTIMATOR, read_settings, require_estimator, require_mode


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    mask = [0, *draw(st.lists(st.integers(0, 1), max_size=20)), 1, *draw(st.lists(st.integers(0, 1), max_size=20))]
    log_probs = [-0.5 * (1 + place) * on for place, on in enumerate(mask)]
    return Sample(ids=list(range(100, 100 + len(mask))), loss_mask=mask, log_probs=log_probs, spans=[])


@given(samples(), st.integers(1, 50), st.integers(1, 50))
def test_fields_are_the_sample_up_to_a_cut(sample: Sample, prompt_length: int, response_length: int) -> None:
    fields = token_fields(sample, prompt_length=prompt_length, response_length=response_length)
    start, end = len(fields.prompt_ids), len(sample.ids) - fields.cut
    assert 1 <= start <= prompt_length
    assert len(fields.response_ids) == len(fields.response_mask) == len(fields.response_logprobs) == end - start
    assert len(fields.response_ids) <= response_length
    assert fields.prompt_ids + fields.response_ids == sample.ids[:end]
    assert fields.response_mask == sample.loss_mask[start:end]
    assert fields.response_logprobs == sample.log_probs[start:end]
    assert not any(sample.loss_mask[:start])
    assert fields.cut == 0 or len(fields.response_ids) == response_length


@given(st.integers(0, 99), st.integers(0, 99))
def test_the_steps_of_an_answer_come_back(first: int, more: int) -> None:
    version = weight_version({"min_global_steps": first, "max_global_steps": first + more})
    assert global_steps(version) == (first, first + more)


@pytest.mark.parametrize("version", [None, "", "a", "1-2-3", "-1", "٣"])
def test_other_versions_are_no_steps(version: str | None) -> None:
    assert global_steps(version) is None


@pytest.mark.parametrize(
    ("versions", "steps"), [(["3", "4-6"], (3, 6)), (["3", None], None), ([], None)], ids=["mixed", "unknown", "none"]
)
def test_a_rollout_has_the_oldest_and_the_newest_step(versions: list[str | None], steps: Any) -> None:
    spans = [
        Span(turn="a", start=nth, end=nth + 1, weight_version=version, trained=True)
        for nth, version in enumerate(versions)
    ]
    n = len(versions)
    assert step_span([Sample(ids=[1] * n, loss_mask=[1] * n, log_probs=[0.0] * n, spans=spans)]) == steps


def test_a_row_comes_back_as_it_was() -> None:
    row = {"responses_create_params": {"input": "hello"}, "nested": {"a": None, "b": [1, {"c": 2.5}]}}
    line = dataset_line(row, 7)
    assert row_of(line) == row
    assert line["extra_info"] == {"index": 7}
    assert line["prompt"] == [{"role": "user", "content": "hello"}]
    with pytest.raises(ConfigError, match="rows"):
        row_of({"prompt": []})


def test_verl_says_how_to_sample() -> None:
    row = {"responses_create_params": {"input": "hello", "temperature": 0.1, "max_output_tokens": 900}}
    sampled = with_sampling(row, {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}, max_tokens=500)
    assert sampled["responses_create_params"] == {
        "input": "hello",
        "temperature": 1.0,
        "top_p": 1.0,
        "max_output_tokens": 500,
    }
    assert row["responses_create_params"]["temperature"] == 0.1


def test_members_of_a_group_are_numbered() -> None:
    assert [member_number(name, 3) for name in "abababa"] == [0, 0, 1, 1, 2, 2, 0]
    assert member_number(None, 3) == 0


def test_several_samples_of_a_rollout_need_a_worker_that_takes_them() -> None:
    settings = read_settings({"config": ["a.yaml"], "options": {"sample_mode": "branch"}})
    require_mode(settings, many=True)
    with pytest.raises(ConfigError, match="use_v1"):
        require_mode(settings, many=False)
    require_mode(read_settings({"config": ["a.yaml"]}), many=False)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="overides"):
        read_settings({"config": ["a.yaml"], "overides": []})


@pytest.mark.parametrize("name", ["grpo", "gae", "rloo"])
def test_an_estimator_that_counts_failures_as_0_is_refused(name: str) -> None:
    require_estimator(ESTIMATOR)
    with pytest.raises(ConfigError, match=f"{name}.*reward 0"):
        require_estimator(name)
