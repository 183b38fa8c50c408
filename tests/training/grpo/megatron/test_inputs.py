"""Rows in one sequence, as processes of context parallelism share it: which token is where.

That TransformerEngine computes the same of it needs GPUs.
"""

import json
import os
import subprocess
from typing import Any

import pytest
from tests.training.grpo.megatron.launch import HERE, ROOT

CAPACITY, N_ROWS = 48, 6
pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def results(vllm_python: str) -> Any:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [vllm_python, HERE / "measure_inputs.py"], capture_output=True, text=True, timeout=600, env=env
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("layout", ["1 1", "2 1", "4 2"])
def test_each_token_is_on_one_process_and_predicted_where_it_stands(results: Any, layout: str) -> None:
    told = results[layout]
    assert sorted(told["rows"]) == list(range(N_ROWS))
    assert told["longest"] <= CAPACITY
    assert told["pieces"] == [[True, 0, 1]] * len(told["pieces"]), "every index once, of like lengths, divisible"
    assert told["tokens"] == [[True, True]] * len(told["tokens"])
