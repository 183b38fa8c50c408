"""Mined pivots against random steps of the same trajectories: `python -m benchmarks pivot_mined`.

Work    `policy.py` makes trajectories (`task.py` says of what) and a starting policy; `paddock pivot mine` finds pivots
        with it. For each seed 64 of them, and 64 steps at random of all candidates, are trained on (`loop.py`): the
        training demonstration with half its prompts in a step, the same number of steps. Every few of them the
        policy answers all steps of held-out trajectories, its likeliest answer.
Figures mean reward on held-out steps by training step, over all of them and over those of the pivots' kind, of each run
        and as the mean of the seeds; the share of training groups without a spread, which teach nothing.
Files   `runs/bench/pivot_mined/`: made, mine, seed-N, of which what is whole is not made again; curves.json and .png.
Env     PADDOCK_VLLM_PYTHON: an interpreter with vLLM, torch, matplotlib and this package.
"""

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from benchmarks.pivot_mined.curves import RunCurves, compare, read_run
from benchmarks.pivot_mined.task import write_lines

VARIABLE = "PADDOCK_VLLM_PYTHON"
OUT = Path("runs/bench/pivot_mined")
SEEDS = 3
ROWS = 64
MAX_MEAN = 0.5
"""Of pivots. The tiny policy slips now and then in the form of what it knows, too: that alone makes no pivot."""
PROMPTS, STEPS, VALIDATE_EVERY = 8, 120, 20
AT_ONCE = 2
"""Runs side by side; each computes in one thread."""
ENGINE = "{dtype: float32, max_model_len: 256, max_num_seqs: 256, kv_cache_gib: 1, enforce_eager: true}"
SAMPLING = "{temperature: 1.0, max_tokens: 40, stop_token_ids: [511]}"
"""As in `configs/train_demo.yaml`."""


def run() -> dict[str, Any]:
    python = os.environ.get(VARIABLE)
    if not python:
        sys.exit(f"{VARIABLE}: not set; it names the interpreter with vLLM (scripts/setup_vllm.sh)")
    made, mine = OUT / "made", OUT / "mine"
    if not (made / "model" / "config.json").exists():
        _call(python, "-m", "benchmarks.pivot_mined.policy", made)
    if not (mine / "report.json").exists():
        _call(sys.executable, *_mine(made, mine))
    jobs = [(name, seed) for seed in range(SEEDS) for name in _draw(mine, seed)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(lambda job: _train(python, made, *job), jobs))
    report = orjson.loads((mine / "report.json").read_bytes())
    figures = {"rows": ROWS, "steps": STEPS, "choices": report["choices"], **compare(runs)}
    (OUT / "curves.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    _call(python, "-m", "benchmarks.pivot_mined.plot", OUT / "curves.json")
    return figures


def _call(*words: object) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([str(word) for word in words], check=True, env=env, stdout=sys.stderr)


def _mine(made: Path, out: Path) -> list[object]:
    policy = "policy_model.models_servers.vllm"
    config = ["resources_servers/pivot/configs/pivot.yaml", "models_servers/vllm/configs/vllm.yaml"]
    config += [f"policy_model_name={made / 'model'}", f"{policy}.launch={ENGINE}", f"{policy}.health_timeout_s=60"]
    config += [f"+{policy}.sampling_overrides={SAMPLING}"]
    flags = ["--max-mean", MAX_MEAN, "--validation-share", 0, "--concurrency", 256, "--quiet"]
    words = ["-m", "paddock", "pivot", "mine", made / "trajectories.jsonl", "--out", out, *flags]
    return [*words, "--config", *config]


def _train(python: str, made: Path, name: str, seed: int) -> RunCurves:
    rows, out = OUT / f"seed-{seed}" / f"{name}.jsonl", OUT / f"seed-{seed}" / f"{name}.json"
    if not out.exists():
        counts = ["--seed", seed, "--steps", STEPS, "--every", VALIDATE_EVERY, "--prompts", PROMPTS]
        files = [made / "model", rows, made / "held_out.jsonl", out]
        _call(python, "-m", "benchmarks.pivot_mined.loop", *files, *counts)
    return read_run(out)


def _draw(mine: Path, seed: int) -> list[str]:
    """Write 64 pivots and 64 candidates, each drawn from all that there are; return the names of their files."""
    chance = random.Random(seed)
    folder = OUT / f"seed-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"mined": "train.jsonl", "random": "candidates.jsonl"}
    for name, file in files.items():
        rows = [orjson.loads(line) for line in (mine / file).read_bytes().splitlines()]
        if len(rows) < ROWS:
            sys.exit(f"{mine / file}: has {len(rows)} rows, {ROWS} are needed")
        write_lines(folder / f"{name}.jsonl", chance.sample(rows, ROWS))
    return list(files)
