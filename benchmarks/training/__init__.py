"""What the training loop costs beside a bare one, what a worker's own model server saves, how long the policy waits,
what sending in flight, age policies and chunks of logits are worth, and what the data of a step costs on its way to the
loss.

Parts that sample are measured with a real vLLM, under the interpreter that PADDOCK_VLLM_PYTHON names (torch and ray are
in its environment); without it they are left out, and said to be.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.training import ages, logits, model_server_place, overhead, policy_wait, step_data, tails, whole_step
from benchmarks.training.demo_task import make_demo

VARIABLE = "PADDOCK_VLLM_PYTHON"


def run() -> dict[str, Any]:
    figures: dict[str, Any] = {"ages": ages.measure(), "tails": tails.measure(), "step_data": step_data.slope()}
    figures["model_server_place"] = model_server_place.measure()
    python = os.environ.get(VARIABLE)
    if not python:
        missing = f"{VARIABLE} is not set (scripts/setup_vllm.sh)"
        return {**figures, "left_out": dict.fromkeys(("logits", "overhead", "waiting", "whole_step"), missing)}
    with tempfile.TemporaryDirectory() as name:
        task = make_demo(python, Path(name))
        figures |= {"logits": logits.measure(python), "overhead": overhead.measure(task)}
        return {**figures, "waiting": policy_wait.measure(task), "whole_step": whole_step.measure(task)}
