"""What `measure_policy.py` found where torch is: the policy's loss, gradients, resume and export are those that they
have to be."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROUNDING = 5e-6
"""Float32 of a small model, one order of additions against another, after a few steps of Adam."""
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    command = [vllm_python, str(HERE / "measure_policy.py"), str(tmp_path_factory.mktemp("policy") / "model")]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("against", ["previous", "generation", "entropy", "epochs"])
def test_loss_and_step_are_those_computed_by_hand_row_by_row(results: Any, against: str) -> None:
    told = results["by_hand"][against]
    assert told["moved"] > 0.01
    assert told["weights"] < 1e-6
    assert abs(told["loss"]) < 1e-6


@pytest.mark.parametrize("temperature", ["1.0", "0.7"])
def test_log_probs_of_a_padded_row_are_those_of_the_row_alone(results: Any, temperature: str) -> None:
    assert results["log_probs"][temperature] < ROUNDING


def test_micro_batches_change_nothing(results: Any) -> None:
    assert results["invariance"]["weights"] < 1e-5
    assert results["invariance"]["loss"] < ROUNDING


@pytest.mark.parametrize("batching", ["packed", "padded", "units", "clip_cov"])
def test_nor_does_it_how_many_rows_share_a_forward_pass(results: Any, batching: str) -> None:
    assert results["invariance"][batching] < 1e-5
    assert all(moved > 0.01 for moved in results["invariance"]["moved"].values())


def test_tokens_are_chosen_over_the_whole_optimiser_step(results: Any) -> None:
    by_row, together = results["invariance"]["chosen"]
    assert by_row == pytest.approx(together)
    assert all(0 < share < 0.5 for share in by_row)


def test_the_same_run_is_the_same_to_the_bit(results: Any) -> None:
    assert results["invariance"]["again"] == 0


def test_activation_checkpointing_changes_nothing(results: Any) -> None:
    assert results["invariance"]["checkpointing"] < 1e-6
    assert results["precision"]["checkpointing"] < 1e-6


@pytest.mark.parametrize("n_before", [0, 3])
def test_steps_after_a_load_are_to_the_bit_those_without_it(results: Any, n_before: int) -> None:
    assert results["resumed"][f"exact_after_{n_before}"] == [True]


def test_the_learning_rate_warms_up_and_stays(results: Any) -> None:
    assert results["resumed"]["lr"] == pytest.approx([0.7e-4, 2.275e-4, 3.85e-4, 5.425e-4, 7e-4, 7e-4])


def test_a_row_about_which_the_engine_disagrees_is_as_if_it_were_not_there(results: Any) -> None:
    told = results["left_out"]
    assert told["masked"] == [2]
    assert told["weights"] < ROUNDING
    assert told["max_abs"] == pytest.approx(3.0, abs=1e-4), "it is measured all the same"
    assert told["tokens"] == told["tokens_in_all"]
    assert told["nobody"] == [0, 0], "without any row nothing moves"


def test_a_batch_may_be_several_steps_whose_ratios_are_of_its_beginning(results: Any) -> None:
    for key, expected in (("three", 3), ("twice", 6)):
        steps, low, high, error = results["several_steps"][key]
        assert steps == expected
        assert low < 0.99 < 1.01 < high
        assert error < ROUNDING, "the engine is compared with the weights that the batch began with"
    for one in ("forced", "one"):
        assert results["several_steps"][one][:3] == [1, 1, 1]


@pytest.mark.parametrize("case", ["one", "rows", "three"])
def test_rows_without_an_advantage_are_not_computed_and_count_in_the_divisors(results: Any, case: str) -> None:
    told = results["alike"][case]
    some, none, _ = told["rows"]
    assert some == [3 if case != "three" else 4, 6], "a part of a batch in which no row has one computes its shortest"
    assert none == [1 if case != "three" else 3, 6]
    assert told["weights"] < ROUNDING, "the optimizer steps with a gradient of 0, too"


@pytest.mark.parametrize("case", ["kl", "entropy"])
def test_rows_without_an_advantage_are_computed_where_a_term_of_the_loss_needs_them(results: Any, case: str) -> None:
    assert results["alike"][case]["rows"] == [[6, 6]] * 3
    assert results["alike"][case]["weights"] < ROUNDING


def test_metrics_are_means_over_the_rows_that_are_computed(results: Any) -> None:
    assert results["alike"]["means"] < ROUNDING


def test_the_reference_policy_is_the_first_one(results: Any) -> None:
    first, second, third = results["divergence"]["kl"]
    assert first == pytest.approx(0, abs=1e-9)
    assert 0 < second < third


def test_a_gradient_that_is_no_number_moves_nothing(results: Any) -> None:
    assert results["bad"]["skipped"] == [1, 0]


def test_a_batch_without_rows_moves_nothing(results: Any) -> None:
    assert results["bad"]["empty"] == [0, 0]


def test_what_cannot_be_is_refused(results: Any) -> None:
    long, first, model = results["bad"]["errors"]
    assert long.startswith("BugError: a row of 180 tokens")
    assert first.startswith("BugError: a row is trained on at its first id")
    assert model.startswith("ConfigError: policy.model_name")


def test_a_state_that_cannot_be_read_says_what_helps(results: Any) -> None:
    metadata, state, former, *_ = results["unreadable"]
    assert metadata.startswith("InfraError")
    assert state.startswith("InfraError")
    assert "goes on from the one before" in metadata
    assert "goes on from the one before" in state
    assert "a state of the version before" in former


def test_a_full_disk_is_an_error_of_one_line(results: Any) -> None:
    for full in results["unreadable"][-2:]:
        assert re.fullmatch(r"InfraError: \S+: can't be written: (\w+Error: .+ \(process 0\)|\[Errno \d+\] .+)", full)


def test_weights_are_learned_in_float32_and_exported_as_they_compute(results: Any) -> None:
    full, half = results["precision"]["float32"], results["precision"]["bfloat16"]
    assert [full["learned"], half["learned"]] == ["torch.float32"] * 2
    assert [full["exported"], half["exported"]] == ["torch.float32", "torch.bfloat16"]
    assert full["same"]
    assert half["same"]
    assert half["loss"] == pytest.approx(full["loss"], rel=0.05)


def test_a_reference_in_bfloat16_has_half_the_memory_and_the_same_log_probs_to_the_bit(results: Any) -> None:
    assert results["precision"]["reference"] == {"apart": 0, "held": ["torch.bfloat16"]}


def test_an_export_has_the_tokenizer_and_the_template(results: Any) -> None:
    for name in ("float32", "bfloat16"):
        told = results["precision"][name]
        files = {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"}
        assert files <= set(told["files"])


def test_weights_go_under_the_names_of_a_checkpoint_also_where_the_model_holds_them_otherwise(results: Any) -> None:
    told = results["experts"]
    assert told["names"]
    assert told["first"][0] > 40, "each expert's weights are their own"
    assert told["first"][1]
    assert told["learned"]
    assert told["moved"] > 40
