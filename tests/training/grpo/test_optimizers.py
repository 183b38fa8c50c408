"""What `measure_optimizers.py` found where torch is: smaller optimizers move weights as AdamW does, and resume."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.training.grpo.policy_config import PolicyConfig

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BYTES = {"AdamW": 8, "AdamW8bit": 2, "PagedAdamW8bit": 2, "PagedAdamW": 8}
"""Of the two moments, for each weight of a tensor of 4,096 or more."""
SHARES = {"AdamW": 0.0, "AdamW8bit": 0.25, "PagedAdamW8bit": 0.25, "PagedAdamW": 1e-3}
"""How far weights may be from AdamW's, as a share of how far those moved."""
MISSING = """
import sys
sys.modules["bitsandbytes"] = sys.modules["bitsandbytes.optim"] = None
from paddock.training.grpo.optimizer import make_optimizer
from paddock.training.grpo.policy_config import OptimizerConfig
import torch
try:
    make_optimizer(torch.nn.Linear(2, 2), OptimizerConfig(name="bitsandbytes.optim.AdamW8bit"))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def output_of(*command: str) -> str:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def results(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if subprocess.run([vllm_python, "-c", "import bitsandbytes"], capture_output=True, timeout=300).returncode:
        pytest.skip("the environment of PADDOCK_VLLM_PYTHON has no bitsandbytes: pip install --no-deps bitsandbytes")
    folder = tmp_path_factory.mktemp("optimizers") / "model"
    found = json.loads(output_of(vllm_python, str(HERE / "measure_optimizers.py"), str(folder)).splitlines()[-1])
    return {one["class"]: one for one in found.values()}


@pytest.mark.vllm
@pytest.mark.parametrize("name", BYTES)
def test_an_optimizer_moves_weights_as_adamw_does_with_its_own_memory(results: Any, name: str) -> None:
    found = results[name]
    assert found["bytes"] == BYTES[name]
    assert found["share_of_movement"] <= SHARES[name]


@pytest.mark.vllm
@pytest.mark.parametrize("name", BYTES)
def test_a_step_after_a_load_is_the_one_without_it(results: Any, name: str) -> None:
    assert results[name]["resumed"]


@pytest.mark.vllm
def test_a_package_that_is_missing_is_named(vllm_python: str) -> None:
    text = output_of(vllm_python, "-c", MISSING)
    assert text.startswith("ConfigError: policy.optimizer.name: bitsandbytes.optim.AdamW8bit needs bitsandbytes")


def test_sharded_weights_are_refused_with_what_would_be_right() -> None:
    block = {"model_name": "m", "optimizer": {"name": "bitsandbytes.optim.AdamW8bit"}, "torch_cfg": {"processes": 2}}
    with pytest.raises(ValueError, match=r"set torch_cfg.processes to 1, or take torch.optim.AdamW"):
        PolicyConfig.model_validate(block)
