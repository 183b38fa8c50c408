"""What `measure_sft.py` found where torch and Ray are: a run's loss, its held-out loss and its export are those that
they have to be."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
pytestmark = [pytest.mark.vllm, pytest.mark.long]


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    command = [vllm_python, str(HERE / "measure_sft.py"), str(tmp_path_factory.mktemp("sft"))]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_run_trains_on_what_the_rule_chooses_and_says_what_became_of_the_rest(results: Any) -> None:
    assert results["command"]["code"] == 0, results["command"]["err"]
    summary = results["whole"]["summary"]
    assert summary["rollouts"] == {"": {"held_out": 12, "reward": 24, "trained": 36}}
    assert summary["steps"] == 20
    for text in (
        "72 read, 12 held out, 24 with too small a reward, 36 to train on",
        "5 an epoch, of about 8 samples; 20 in all",
    ):
        assert text in results["plan"]["out"]


def test_the_held_out_loss_falls_and_is_what_transformers_computes(results: Any) -> None:
    losses = results["whole"]["summary"]["held_out_loss"]
    assert list(losses) == ["0", "5", "10", "15", "20"]
    assert [losses["0"], losses["20"]] == pytest.approx(results["plain"], abs=1e-6)
    assert losses["20"] < losses["10"] < losses["0"] / 2


def test_the_first_loss_is_the_mean_over_tokens(results: Any) -> None:
    # 8 of the 36 samples, before anything is learned.
    assert results["whole"]["losses"][0] == pytest.approx(results["plain"][0], rel=0.1)


def test_a_run_that_is_resumed_is_to_the_bit_the_one_that_was_not_stopped(results: Any) -> None:
    assert results["parted"]["losses"] == results["whole"]["losses"]
    assert results["same"]


def test_the_export_is_a_model_that_the_next_run_takes(results: Any) -> None:
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(
        results["whole"]["files"]
    )


def test_what_cannot_be_is_refused_before_a_start(results: Any) -> None:
    assert results["taken"]["code"] == 2
    assert "holds a run already" in results["taken"]["err"]
    assert results["shifted"]["code"] == 2
    assert "ids are of another vocabulary than policy.tokenizer" in results["shifted"]["err"]
