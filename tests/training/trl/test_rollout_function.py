"""Claims about prompts, groups and the fields of a batch that need no TRL."""

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.rollouts import TrainingRollout
from paddock.training.trl.colocated import ColocatedEngine
from paddock.training.trl.rollout_function import REWARD_KEY, batch_fields, environment_reward, row_groups
from paddock.training.trl.rows import dataset_rows, row_number
from paddock.types import JsonObject


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5))
def test_groups_are_the_prompts_in_order(numbers: list[int], size: int) -> None:
    groups = row_groups(numbers, size)
    assert list(chain.from_iterable([group.row] * group.size for group in groups)) == numbers
    assert all(1 <= group.size <= size for group in groups)


def test_a_row_that_stands_twice_in_a_batch_is_two_groups() -> None:
    assert [group.size for group in row_groups([7] * 8, 4)] == [4, 4]


def test_a_prompt_says_which_row_it_is_of() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Yes or no?"}]
    rows: list[JsonObject] = [
        {"responses_create_params": {"input": "Go on."}},
        {"responses_create_params": {"input": [*messages, {"type": "function_call_output", "output": "x"}]}},
        {"instance_id": "no prompt of its own"},
    ]
    prompts = [example["prompt"] for example in dataset_rows(rows)]
    assert [row_number(prompt) for prompt in prompts] == [0, 1, 2]
    assert [prompt[0]["content"] for prompt in prompts] == ["Go on.", "Be brief.\n\nYes or no?", ""]


def test_a_failed_rollout_is_a_mask_of_zeros_without_a_reward() -> None:
    failed = TrainingRollout(0, "infra", None, "infra")
    unproven = TrainingRollout(1, "completed", 1.0, "not_exact")
    fields = batch_fields([failed, unproven], 9)
    assert fields == {
        "prompt_ids": [[9], [9]],
        "completion_ids": [[9], [9]],
        "env_mask": [[0], [0]],
        "logprobs": [[0.0], [0.0]],
        REWARD_KEY: [None, None],
    }
    assert environment_reward(["", ""], fields[REWARD_KEY]) == [None, None]


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("mode", "server", "vllm_mode"),
        ("tensor_parallel_size", 2, "vllm_tensor_parallel_size"),
        ("enable_sleep_mode", True, "vllm_enable_sleep_mode"),
    ],
)
def test_what_can_not_be_asked_answer_by_answer_is_refused(field: str, value: Any, name: str) -> None:
    generation = SimpleNamespace(
        **{"mode": "colocate", "tensor_parallel_size": 1, "enable_sleep_mode": False, field: value}
    )
    with pytest.raises(ConfigError, match=f"GRPOConfig.{name}"), ColocatedEngine().running(generation):
        pass
