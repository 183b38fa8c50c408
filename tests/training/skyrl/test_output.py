"""Claims about the rows that SkyRL is given, for groups of every kind."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.rollouts import RolloutGroup, RolloutOptions, TrainingRollout
from paddock.tokens.export import Mode, plan_rollout, rollout_samples
from paddock.training.core.advantages import advantages
from paddock.training.core.settings import GrpoSettings
from paddock.training.core.testing import rollout, turn
from paddock.training.skyrl.output import OutputRow, columns, group_metrics, group_rows
from paddock.training.skyrl.rows import dataset_line, row_of, with_sampling
from paddock.training.skyrl.settings import options_for, settings_of
from paddock.types import JsonObject

FILLER = 9


class MemberId(NamedTuple):
    instance_id: str
    repetition_id: int


def member(number: int, reward: float | None, *, turns: int = 1, mode: Mode = "whole") -> TrainingRollout:
    """`reward`: None: it failed."""
    if reward is None:
        return TrainingRollout(number, "infra", None, "infra")
    path = [turn("t0")]
    for nth in range(1, turns):
        path.append(turn(f"t{nth}", f"t{nth - 1}", prompt_ids=[7]))
    record = rollout(reward=reward, nth=number, turns=path)
    samples = tuple(rollout_samples(record, mode, plan_rollout(record, mode)))
    return TrainingRollout(number, "completed", reward, None, samples, metrics={"close": reward}, total_s=2.0)


def rows_of(rewards: list[float | None], *, step_wise: bool, turns: int = 1) -> list[OutputRow]:
    mode: Mode = "dynamic_history" if step_wise else "whole"
    group = RolloutGroup(0, tuple(member(nth, one, turns=turns, mode=mode) for nth, one in enumerate(rewards)))
    ids = [MemberId("0", nth) for nth in range(len(rewards))]
    return group_rows(group, ids, step_wise=step_wise, filler=FILLER)


def grpo(scores: list[float]) -> list[float]:
    """SkyRL's advantages, without the standard deviation: a row alone in its group has its own reward."""
    mean = sum(scores) / len(scores) if len(scores) > 1 else 0.0
    return [score - mean for score in scores]


REWARDS = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0])), min_size=2, max_size=6)


@given(REWARDS, st.booleans())
def test_failed_members_move_no_others_advantage(rewards: list[float | None], step_wise: bool) -> None:
    rows = rows_of(rewards, step_wise=step_wise, turns=2)
    last = [row for row in rows if row.last]
    theirs = {
        row.trajectory.repetition_id: value
        for row, value in zip(last, grpo([row.reward for row in last]), strict=True)
        if any(row.mask)
    }
    ours = advantages(rewards, GrpoSettings(use_leave_one_out_baseline=False, normalize_rewards=False))
    expected = {nth: value for nth, value in enumerate(ours) if value is not None}
    assert theirs == pytest.approx(expected)


@given(REWARDS, st.booleans(), st.integers(1, 3))
def test_rows_are_aligned_whole_and_in_order(rewards: list[float | None], step_wise: bool, turns: int) -> None:
    rows = rows_of(rewards, step_wise=step_wise, turns=turns)
    assert rows
    if not step_wise:
        assert [row.trajectory.repetition_id for row in rows] == list(range(len(rewards)))
    numbers = [row.trajectory.repetition_id for row in rows]
    assert numbers == sorted(numbers)
    for nth, row in enumerate(rows):
        assert row.prompt
        assert len(row.response) == len(row.mask) == len(row.log_probs) >= 1
        assert row.last == (nth == len(rows) - 1 or numbers[nth + 1] != numbers[nth])
        failed = rewards[row.trajectory.repetition_id] is None
        assert any(row.mask) != failed
    trained = [row for row in rows if any(row.mask)]
    live = sum(reward is not None for reward in rewards)
    assert len(trained) == live * (turns if step_wise else 1)


def test_a_row_holds_the_samples_ids_and_what_the_environment_wrote_is_masked() -> None:
    (entry,) = member(0, 1.0, turns=2).samples
    (row,) = rows_of([1.0], step_wise=False, turns=2)
    assert row.prompt + row.response == entry.sample.ids
    assert row.mask == entry.sample.loss_mask[len(row.prompt) :]
    assert row.mask == [1, 1, 0, 1, 1]
    assert row.log_probs == [-0.5, -0.5, 0.0, -0.5, -0.5]


def test_columns_have_the_last_steps_only_where_asked() -> None:
    rows = rows_of([1.0, None], step_wise=True, turns=2)
    assert columns(rows, step_wise=True)["is_last_step"] == [False, True, True]
    assert columns(rows, step_wise=False)["is_last_step"] is None


def test_metrics_say_how_many_failed_and_what_was_measured() -> None:
    group = RolloutGroup(0, (member(0, 1.0), member(1, None), member(2, 0.0), member(3, None)))
    assert group_metrics([group]) == {
        "paddock/failed_mean": 0.5,
        "paddock/failed_infra_sum": 2.0,
        "paddock/close_mean": 0.5,
    }


def test_a_row_is_what_it_was() -> None:
    row = {"responses_create_params": {"input": [{"role": "user", "content": "hi"}]}, "answer": None}
    line = dataset_line(row)
    assert row_of(line) == row
    assert line["prompt"] == [{"role": "user", "content": "hi"}]
    with pytest.raises(ConfigError, match="paddock_row"):
        row_of({"answer": "yes"})


@pytest.mark.parametrize("params", [{"input": []}, {"input": ""}, {}])
def test_a_row_whose_agent_makes_the_prompt_has_a_message_to_measure(params: JsonObject) -> None:
    row = {"responses_create_params": params, "instance_id": "a"}
    line = dataset_line(row)
    assert line["prompt"] == [{"role": "user", "content": ""}]
    assert row_of(line) == row


def test_rows_are_sampled_as_the_trainer_says() -> None:
    row = {"responses_create_params": {"input": "hi", "temperature": 0.1, "max_output_tokens": 50}}
    sampling = {"temperature": 0.7, "top_p": 1.0, "top_k": -1, "max_tokens": 80, "stop": None, "logprobs": 1}
    assert with_sampling(row, sampling)["responses_create_params"] == {
        "input": "hi",
        "temperature": 0.7,
        "top_p": 1.0,
        "max_output_tokens": 50,
    }
    assert with_sampling(row, {**sampling, "top_k": 5, "max_tokens": 20})["responses_create_params"]["top_k"] == 5
    assert with_sampling(row, {"max_tokens": 20})["responses_create_params"]["max_output_tokens"] == 20
    assert with_sampling(row, None) is row


def test_words_of_a_command_line_are_settings() -> None:
    settings = settings_of(["a.yaml", "engine.tool_parser=hermes", "engine.max_model_len=4096", "eval.max_attempts=2"])
    assert settings.config == ["a.yaml"]
    assert settings.engine == {"tool_parser": "hermes", "max_model_len": 4096}
    assert settings.overrides == ["eval.max_attempts=2"]
    with pytest.raises(ConfigError, match="no config"):
        settings_of(["eval.max_attempts=2"])


def test_a_rollout_has_one_sample_where_it_is_not_step_wise() -> None:
    options = RolloutOptions(sample_mode="branch", max_rollouts=3)
    assert options_for(options, step_wise=False) == RolloutOptions(sample_mode="whole", max_rollouts=3)
    assert options_for(options, step_wise=True) == options
