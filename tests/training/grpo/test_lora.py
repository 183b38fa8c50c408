"""What `measure_lora.py` found where torch is: adapters alone learn, and trainer, engine and export have one weight."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.ports import free_port
from paddock.training.grpo.policy_config import LoraConfig

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LAYERS = 14
"""Of two layers, seven each."""
ROUNDING = 5e-6
MAKE = "import pathlib, sys, tests.training.grpo.tiny_policy as t; t.make_model(pathlib.Path(sys.argv[1]))"
COMPARE = """
import json, pathlib, sys, torch, tests.training.grpo.tiny_policy as t
one, two = (torch.load(f"{sys.argv[1]}/lora-{n}/sent.pt", weights_only=True) for n in (1, 2))
states = [set(t.stored_weights(pathlib.Path(sys.argv[1], f"lora-{n}"))) for n in (1, 2)]
print(json.dumps({"names": list(one["sent"]) == list(two["sent"]), "states": states[0] == states[1],
    "losses": [one["losses"], two["losses"]], "resumed": one["resumed"] and two["resumed"],
    "apart": max(float((one["sent"][name] - two["sent"][name]).abs().max()) for name in one["sent"])}))
"""


def started(*command: str) -> subprocess.Popen[str]:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def output_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("lora") / "model"
    return json.loads(output_of(started(vllm_python, str(HERE / "measure_lora.py"), str(folder))).splitlines()[-1])


@pytest.mark.vllm
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_adapter_changes_nothing_at_first_and_learns_alone(results: Any, precision: str) -> None:
    found = results[precision]
    assert found["layers"] == LAYERS
    assert found["optimized"] == 2 * LAYERS
    assert found["first"] < ROUNDING
    assert found["trained"] > 1, "three steps have moved the policy far"
    assert found["moved"] > 0, "each adapter"
    assert found["frozen"] == 0
    assert found["dtypes"] == ["lora torch.float32", f"own torch.{precision}"]


@pytest.mark.vllm
def test_log_probs_of_the_merged_weights_are_those_that_were_trained(results: Any) -> None:
    assert results["float32"]["merged"] < ROUNDING
    assert results["float32"]["paper"] < ROUNDING
    assert results["bfloat16"]["merged"] < ROUNDING
    assert results["bfloat16"]["paper"] > 1e-3, "which adapters beside the weights would not be"
    assert results["float32"]["sent"]
    assert results["bfloat16"]["sent"]


@pytest.mark.vllm
def test_the_gradient_is_that_of_plain_operations_and_the_weight_has_none(results: Any) -> None:
    assert results["gradient"]["relative"] < ROUNDING
    assert results["gradient"]["weight"]
    assert results["checkpointed"]["apart"] == 0


@pytest.mark.vllm
def test_a_state_has_adapters_alone_and_goes_on_to_the_bit(results: Any) -> None:
    found = results["resumed"]
    assert found["same"]
    assert found["stored"] == ["lora_a", "lora_b"]
    assert found["states"] == 2 * LAYERS
    assert found["refused"].startswith("InfraError")


@pytest.mark.vllm
def test_the_reference_is_the_model_without_adapters(results: Any) -> None:
    first, second, third = results["divergence"]["kl"]
    assert first == pytest.approx(0, abs=1e-9)
    assert 0 < second < third
    assert results["divergence"]["one_model"]
    assert not results["divergence"]["on_without"]
    assert results["bfloat16"]["reference"] < ROUNDING


@pytest.mark.vllm
def test_layers_are_chosen_by_name_and_by_pattern(results: Any) -> None:
    found = results["targets"]
    assert {name.rpartition(".")[2] for name in found["names"]} == {"q_proj", "v_proj"}
    assert found["pattern"] == [f"model.layers.1.mlp.{name}_proj" for name in ("down", "gate", "up")]
    assert len(found["excluded"]) == 8
    assert not any("mlp" in name for name in found["excluded"])
    assert found["experts"] == ["k_proj", "o_proj", "q_proj", "v_proj"]
    assert "q_proj" in found["error"]


@pytest.mark.vllm
@pytest.mark.long
def test_two_processes_learn_what_one_learns(vllm_python: str, tmp_path: Path) -> None:
    output_of(started(vllm_python, "-c", MAKE, str(tmp_path / "model")))
    script, port = str(HERE / "measure_lora_shards.py"), str(free_port())
    both = [started(vllm_python, script, str(tmp_path), "2", port, str(rank)) for rank in (0, 1)]
    for process in both:
        output_of(process)
    output_of(started(vllm_python, script, str(tmp_path), "1", "0", "0"))
    found = json.loads(output_of(started(vllm_python, "-c", COMPARE, str(tmp_path))).splitlines()[-1])
    assert found["names"]
    assert found["states"]
    assert found["resumed"]
    assert found["losses"][1] == pytest.approx(found["losses"][0], abs=1e-5)
    assert found["apart"] < 2e-4, "weights move by some hundredths"


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ({"target_modules": ["q_proj"], "match_all_linear": True}, "set it to false"),
        ({"match_all_linear": False}, "name some in target_modules"),
        ({"dim": 0}, "greater than or equal to 1"),
    ],
)
def test_a_block_that_cannot_be_is_refused(block: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        LoraConfig.model_validate(block)
