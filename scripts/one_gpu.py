"""`python -m scripts.one_gpu FOLDER`: policy and vLLM take turns on this machine's GPU, and the memory sheet is tried.

Model   of MODEL (a folder), or of the shape of Qwen3-0.6B with random weights, made here; nothing is downloaded.
Does    vLLM samples rows, sleeps while the policy trains on them (adapters, or with --all-weights all by AdamW8bit of
        bitsandbytes), wakes up, gets the weights by memory of the GPU that both share, and samples again. A warning
        says where they came over gloo instead, and why.
Tells   as lines and in FOLDER/report.json: the largest memory in use on the GPU while the policy trained and while vLLM
        sampled, beside the sheet's; seconds of steps and sendings; what trainer and vLLM make of the same tokens at
        each step, which have to agree as at the first.
CPU     --device cpu tries all but memory and sleep, on a tiny shape.
Run     under the interpreter of an environment with vLLM, Ray and Transformers: see `docs/training.md`.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import torch
from scripts.megatron_gpu import SMALL, TINY, GpuPlan, VllmSampler, make

from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.training.core.records import Batch
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.memory_sheet import GIB, memory_sheet, model_sizes, sheet_lines
from paddock.training.grpo.placement import RoleNeed
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.remote import start_policy
from paddock.training.grpo.roles import Policy

TIMEOUT_S = 3600.0
LOOK_S = 0.05
ERROR = "train/logprob_error/current"


class PeakMemory:
    """The most memory of the GPU in use, by all processes, since `take` was called last; 0 without a GPU."""

    def __init__(self) -> None:
        self._peak = 0
        self._ended = Event()
        self._thread = Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "PeakMemory":
        if torch.cuda.is_available():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def take(self) -> float:
        """In GiB."""
        peak, self._peak = self._peak, 0
        return peak / GIB

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_S):
            free, total = torch.cuda.mem_get_info()
            self._peak = max(self._peak, total - free)


def settings(plan: GpuPlan, *, all_weights: bool) -> PolicySettings:
    lora = {"enabled": not all_weights, "dim": 32, "alpha": 32}
    optimizer = "bitsandbytes.optim.AdamW8bit" if all_weights else "torch.optim.AdamW"
    policy = {
        "model_name": str(plan.model),
        "max_total_sequence_length": plan.length,
        "precision": plan.precision,
        "optimizer": {"name": optimizer, "kwargs": {"lr": 1e-5 if all_weights else 1e-4, "weight_decay": 0.0}},
        "torch_cfg": {"device": plan.device, "threads": None},
        "dtensor_cfg": {"lora_cfg": lora, "activation_checkpointing": True},
        "generation": {"colocated": {"enabled": True}},
    }
    return PolicySettings.model_validate({"policy": policy, "loss": {}})


def engine_of(plan: GpuPlan, share: float) -> VllmEngine:
    launch: dict[str, Any] = {
        "dtype": plan.precision,
        "max_model_len": plan.length + 16,
        "max_num_seqs": plan.rows,
        "folder": plan.folder / "logs",
        "weight_transfer": "gloo",
    }
    if plan.device == "cpu":
        launch |= {"device": "cpu", "kv_cache_gib": 1, "enforce_eager": True}
    else:
        launch |= {"device": "gpu", "serve_kwargs": {"enable_sleep_mode": True, "gpu_memory_utilization": share}}
    block = {"model": str(plan.model), "launch": launch, "health_timeout_s": 60.0}
    return VllmEngine(VllmConfig.model_validate(block), name="policy")


async def steps(plan: GpuPlan, own: PolicySettings, share: float, processes: RoleProcesses) -> list[dict[str, float]]:
    """A line of figures for each step."""
    placement = await processes.place([RoleNeed("policy", 1), RoleNeed("engines", 0), RoleNeed("rollouts", 0)])
    policy: Policy = await start_policy(processes, placement.policy, own, TIMEOUT_S)
    engine = engine_of(plan, share)
    found = []
    try:
        with PeakMemory() as memory:
            await engine.start()
            sampler = VllmSampler(plan, engine, takes_weights=True)
            for step in range(plan.steps):
                began = time.monotonic()
                sent = await policy.send(step, [sampler.replica], clear_cache=True)
                if sent.failed:
                    raise SystemExit(f"weights did not arrive: {sent.failed}")
                sent_at = time.monotonic()
                rows = await sampler.rows(step, step)
                sampled, sampling = time.monotonic(), memory.take()
                metrics = (await policy.train(Batch(step, rows, [], [], []))).metrics
                found.append(
                    {
                        "send_s": sent_at - began,
                        "sample_s": sampled - sent_at,
                        "train_s": time.monotonic() - sampled,
                        "sampling_gib": sampling,
                        "training_gib": memory.take(),
                        "mismatch_mean": metrics[f"{ERROR}/mean_abs"],
                        "mismatch_max": metrics[f"{ERROR}/max_abs"],
                        "grad_norm": metrics["train/grad_norm"],
                    }
                )
    finally:
        await processes.end()
        await engine.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path, help="folder; default: one with random weights is made")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: and a tiny model")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--all-weights", action="store_true", help="train all weights, in place of adapters")
    parser.add_argument("--share", type=float, default=0.85, help="of the GPU that vLLM takes while it samples")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rows", type=int, default=16, help="of a step")
    parser.add_argument("--tokens", type=int, default=1984, help="of an answer")
    args = parser.parse_args()
    shape = SMALL if args.device == "cuda" else TINY
    plan = GpuPlan(args.folder.resolve(), args.device, args.precision, shape, 0, args.steps, args.rows, args.tokens, {})
    if args.model is None:
        make(plan)
    else:
        plan.folder.mkdir(parents=True, exist_ok=True)
        plan.model.symlink_to(args.model.resolve())
    own = settings(plan, all_weights=args.all_weights)
    with open_processes(plan.folder / "logs", ClusterConfig()) as processes:
        found = asyncio.run(steps(plan, own, args.share, processes))
    sizes = model_sizes(plan.model)
    lines = sheet_lines(memory_sheet(own.policy, sizes), args.share) if sizes is not None else []
    machine = torch.cuda.get_device_name() if plan.device == "cuda" else "CPU"
    about = {"machine": machine, "precision": plan.precision, "rows": plan.rows, "tokens": plan.length}
    report = {"about": about, "sheet": lines, "steps": found}
    (plan.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    print("\n".join([*map(str, about.items()), *lines]))
    for step, figures in enumerate(found):
        print(f"step {step}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
