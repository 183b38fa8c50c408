"""A step of the training demonstration, whole, beside that of the bare loop over the same rows, model and vLLM.

Both sample 16 x 16 rollouts, train on them and send the weights; ours in flight, over processes, recorded. Runs take
turns, and ratios are of runs that followed each other.
Target  at most 1.25 times the bare loop's.
"""

import subprocess
from statistics import median
from typing import Any

import orjson

from benchmarks.training.demo_task import CONFIG, DemoTask

STEPS = 24
WARM_UP = 4
"""First steps, which are not counted: buffers fill, engines warm up."""
ROUNDS = 3
PROMPTS = 16


def measure(task: DemoTask) -> dict[str, Any]:
    pairs = [(_ours(task, nth), _bare(task)) for nth in range(ROUNDS)]
    return {
        "rollouts": PROMPTS * 16,
        "step_s": median(ours for ours, _ in pairs),
        "bare_step_s": median(bare for _, bare in pairs),
        "ratio": median(ours / bare for ours, bare in pairs),
        "ratios": [ours / bare for ours, bare in pairs],
    }


def _ours(task: DemoTask, nth: int) -> float:
    out = task.folder / f"whole-{nth}"
    limits = [f"grpo.max_num_steps={STEPS}", "checkpointing.enabled=false"]
    command = [task.python, "-m", "paddock", "train", CONFIG, *task.overrides(PROMPTS), *limits, "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = (orjson.loads(line)["metrics"] for line in (out / "metrics.jsonl").read_bytes().splitlines())
    return _mean([line["timing/step_s"] for line in lines])


def _bare(task: DemoTask) -> float:
    command = [task.python, "-m", "benchmarks.training.bare_loop", str(task.folder), "--steps", str(STEPS)]
    seconds = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1]
    return _mean(orjson.loads(seconds))


def _mean(seconds: list[float]) -> float:
    """Of the steps that count: a step that waits for another's groups is short where that one is long."""
    counted = seconds[WARM_UP:]
    return sum(counted) / len(counted)
