"""How much of its time the policy waits in the training demonstration: short runs of `paddock train`, real vLLM.

Rollouts and training share the machine's cores here, so that what one way gains by doing both at once is at most what
the other leaves idle; `tails` has the gain where they do not.
Floor   the synchronous run (age 0), in which engines and policy take turns.
"""

import subprocess
from statistics import median
from typing import Any

import orjson

from benchmarks.training.demo_task import CONFIG, DemoTask

STEPS = 14
WARM_UP = 4
"""First steps, which are not counted: buffers fill, engines warm up."""
PROMPTS = 16
VARIANTS = {
    "synchronous": ["grpo.async_grpo.max_trajectory_age_steps=0", "grpo.async_grpo.in_flight_weight_updates=false"],
    "in_flight": ["grpo.async_grpo.max_trajectory_age_steps=1", "grpo.async_grpo.in_flight_weight_updates=true"],
}
SECONDS = ("step_s", "wait_s", "drain_s", "train_s", "send_s", "engines_paused_s")


def measure(task: DemoTask) -> dict[str, Any]:
    figures_by_variant = {name: _run(task, name) for name in VARIANTS}
    floor = figures_by_variant["synchronous"]["step_s"]
    return {
        "steps": STEPS - WARM_UP,
        "rollouts_per_step": PROMPTS * 16,
        "ways": [
            {"way": name, **figures, "speed_ratio": floor / figures["step_s"]}
            for name, figures in figures_by_variant.items()
        ],
    }


def _run(task: DemoTask, variant: str) -> dict[str, float]:
    out = task.folder / variant
    limits = [f"grpo.max_num_steps={STEPS}", "checkpointing.enabled=false"]
    command = [task.python, "-m", "paddock", "train", CONFIG, *task.overrides(PROMPTS), *VARIANTS[variant], *limits]
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    lines = [orjson.loads(line)["metrics"] for line in (out / "metrics.jsonl").read_bytes().splitlines()][WARM_UP:]
    seconds = {name: median(line.get(f"timing/{name}", 0.0) for line in lines) for name in SECONDS}
    return {"wait_share": median(line["timing/wait_share"] for line in lines), **seconds}
