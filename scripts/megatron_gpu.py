"""`python scripts/megatron_gpu.py FOLDER`: the policy on Megatron-core beside the one on torch, on this machine's GPUs.

Model   the shape of Qwen3-0.6B (or, with --experts, a small mixture), random weights, made here; nothing is downloaded.
Does    vLLM samples rows from the model. Each policy (in processes of its own, as in a run) trains on the same rows,
        from the same weights, sends its own to vLLM, and trains on what that samples then.
Tells   as a table and in FOLDER/report.json: log-probs against Hugging Face's of the same precision, losses, norms of
        gradients, how far the weights are apart after the steps (as a share of how far they moved), seconds of steps
        and sendings, what trainer and vLLM make of the same tokens then, and whether a loaded state goes on alike.
GPUs    the first ones are the policy's, the last is vLLM's, and weights go over NCCL. With too few of them vLLM shares
        the first, and nothing is sent: NCCL refuses two ranks on one GPU.
CPU     --device cpu with --setup-hook tries everything but the kernels, on a tiny shape.
Run     under the interpreter of an environment with vLLM, Ray, Megatron-core and mbridge: see `docs/training.md`.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from paddock.http import Call
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.testing.tiny_qwen3 import make_tokenizer
from paddock.training.core.records import Batch, TrainRow, VersionSpan
from paddock.training.grpo.config import ClusterConfig
from paddock.training.grpo.placement import RoleNeed
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.processes import RoleProcesses, open_processes
from paddock.training.grpo.remote import start_policy
from paddock.training.grpo.roles import Policy

BACKENDS = ("torch", "megatron")
SMALL: dict[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1024,
}
SHARPNESS = 0.05
"""`initializer_range`: with the usual 0.02 all tokens are about as likely, and a wrong weight would hardly show."""
PROMPT = 64
LR = 1e-3
"""So large that what a step moves shows in weights of bfloat16."""
TIMEOUT_S = 3600.0
REPLICA = "policy-0"
VISIBLE = "CUDA_VISIBLE_DEVICES"

Metrics = dict[str, float]


class GpuPlan(NamedTuple):
    """What the command asks for."""

    folder: Path
    device: str
    precision: str
    shape: dict[str, Any]
    experts: int
    """0: no mixture."""
    steps: int
    rows: int
    tokens: int
    """The length of an answer."""
    megatron: dict[str, Any]
    """`policy.megatron_cfg`."""

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def length(self) -> int:
        return PROMPT + self.tokens


class PolicyCourse(NamedTuple):
    """What one policy reports of its steps."""

    steps: list[Metrics]
    """The engine's log-probs are Hugging Face's in the first, and vLLM's in the others."""
    seconds: list[float]
    exported: Path
    """Its weights after the steps."""
    sent: SendResult | None
    """None: there was nobody to send to."""
    after: Metrics
    """Metrics of one step more, on rows of the newest weights where they were sent."""
    again: Metrics
    """Metrics of the same step, after the state before it was loaded."""


def make(plan: GpuPlan) -> None:
    torch.manual_seed(0)
    common: dict[str, Any] = {**plan.shape, "initializer_range": SHARPNESS, "max_position_embeddings": 4096}
    model: Any
    if plan.experts:
        inner = plan.shape["intermediate_size"] // 4
        mixture = {"num_experts": plan.experts, "num_experts_per_tok": 2, "moe_intermediate_size": inner}
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**common, **mixture, norm_topk_prob=True))
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**common, tie_word_embeddings=True))
    plan.model.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16 if plan.precision == "bfloat16" else torch.float32).save_pretrained(plan.model)
    make_tokenizer([Path(__file__).read_text()], 512).save_pretrained(plan.model)


def settings(plan: GpuPlan, backend: str) -> PolicySettings:
    on_megatron = backend == "megatron"
    policy = {
        "model_name": str(plan.model),
        "max_total_sequence_length": plan.length,
        "train_micro_batch_size": 2,
        "precision": plan.precision,
        "max_grad_norm": 1.0,
        "optimizer": {"kwargs": {"lr": LR, "weight_decay": 0.0}},
        "torch_cfg": {"device": plan.device, "threads": 1},
        "megatron_cfg": {**plan.megatron, "enabled": on_megatron},
    }
    return PolicySettings.model_validate({"policy": policy, "loss": {}})


def by_hugging_face(plan: GpuPlan, rows: Sequence[TrainRow]) -> list[TrainRow]:
    """The rows, as if an engine had sampled them whose log-probs are those of Transformers."""
    dtype = torch.bfloat16 if plan.precision == "bfloat16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(plan.model, dtype=dtype).to(plan.device).eval()
    courses = []
    for row in rows:
        ids = torch.from_numpy(row.ids).long().to(plan.device)[None]
        with torch.no_grad():
            every = model(ids).logits[0, :-1].float().log_softmax(-1)
        log_probs = np.append(np.float32(0), every.gather(-1, ids[0, 1:, None])[:, 0].cpu().numpy())
        courses.append(row._replace(generation_log_probs=log_probs * row.loss_mask))
    return courses


class VllmSampler:
    """A vLLM."""

    def __init__(self, plan: GpuPlan, engine: VllmEngine, *, takes_weights: bool) -> None:
        self._plan = plan
        self._engine = engine
        self.takes_weights = takes_weights

    @property
    def replica(self) -> ReplicaInfo:
        process = self._engine.replicas.all[0].process
        assert process is not None
        return ReplicaInfo(REPLICA, process.url, 0)

    async def rows(self, seed: int, version: int) -> list[TrainRow]:
        chance = random.Random(seed)
        prompts = [[chance.randrange(20, 500) for _ in range(PROMPT)] for _ in range(self._plan.rows)]
        rows = await asyncio.gather(*(self._row(nth, ids, version) for nth, ids in enumerate(prompts)))
        return list(rows)

    async def _row(self, nth: int, prompt: list[int], version: int) -> TrainRow:
        ids, log_probs = list[int](), list[float]()
        params = {"max_tokens": self._plan.tokens, "ignore_eos": True}
        async for chunk in self._engine.generate(prompt, params, Call(), rollout=None):
            ids += chunk.ids
            log_probs += chunk.log_probs
        at, end = len(prompt), len(prompt) + len(ids)
        sampled, advantage = np.arange(end) >= at, 1.0 if nth % 2 else -1.0
        return TrainRow(
            group=0,
            member=nth,
            sample=0,
            ids=np.array(prompt + ids, np.int32),
            loss_mask=sampled,
            generation_log_probs=np.array([0.0] * at + log_probs, np.float32),
            advantages=np.float32(advantage) * sampled,
            reward=advantage,
            oldest=version,
            newest=version,
            versions=(VersionSpan(at, end, version),),
        )


def gpus() -> list[str]:
    """Names of those that this process sees."""
    visible = os.environ.get(VISIBLE)
    return visible.split(",") if visible else [str(one) for one in range(torch.cuda.device_count())]


@asynccontextmanager
async def engine_of(plan: GpuPlan, n_policy: int) -> AsyncIterator[VllmSampler]:
    launch: dict[str, Any] = {
        "dtype": plan.precision,
        "max_model_len": plan.length + 16,
        "max_num_seqs": plan.rows,
        "folder": plan.folder / "logs",
    }
    takes_weights = True
    if plan.device == "cpu":
        launch |= {"device": "cpu", "kv_cache_gib": 1, "enforce_eager": True, "weight_transfer": "gloo"}
    else:
        takes_weights = len(gpus()) > n_policy
        launch |= {"device": "gpu", "env": {VISIBLE: gpus()[-1 if takes_weights else 0]}}
        launch |= (
            {"weight_transfer": "paddock_nccl"} if takes_weights else {"serve_kwargs": {"gpu_memory_utilization": 0.3}}
        )
    block = {"model": str(plan.model), "launch": {"python": sys.executable, **launch}, "health_timeout_s": 60.0}
    vllm_engine = VllmEngine(VllmConfig.model_validate(block), name="policy")
    try:
        await vllm_engine.start()
        yield VllmSampler(plan, vllm_engine, takes_weights=takes_weights)
    finally:
        await vllm_engine.stop()


async def course(
    plan: GpuPlan, backend: str, processes: RoleProcesses, batches: Sequence[Sequence[TrainRow]], engine: VllmSampler
) -> PolicyCourse:
    own = settings(plan, backend)
    ranks = RoleNeed("policy", own.policy.n_processes, gpus=int(plan.device == "cuda"))
    placement = await processes.place([ranks, RoleNeed("engines", 0), RoleNeed("rollouts", 0)])
    policy: Policy = await start_policy(processes, placement.policy, own, TIMEOUT_S)
    metrics, seconds = list[Metrics](), list[float]()
    for step, rows in enumerate(batches):
        began = time.monotonic()
        metrics.append(dict((await policy.train(_batch(step, rows))).metrics))
        seconds.append(time.monotonic() - began)
    exported, state = plan.folder / backend / "weights", plan.folder / backend / "state"
    await policy.export(exported)
    await policy.save(state)
    sent, last = None, _batch(plan.steps, batches[-1])
    if engine.takes_weights:
        sent = await policy.send(plan.steps, [engine.replica], clear_cache=True)
        if sent.failed:
            raise SystemExit(f"{backend}: weights did not arrive: {sent.failed}")
        last = _batch(plan.steps, await engine.rows(plan.steps, plan.steps))
    after = await policy.train(last)
    await policy.load(state)
    again = await policy.train(last)
    await processes.end()
    return PolicyCourse(metrics, seconds, exported, sent, dict(after.metrics), dict(again.metrics))


def _batch(step: int, rows: Sequence[TrainRow]) -> Batch:
    return Batch(step, list(rows), [], [], [])


class BackendCourses(NamedTuple):
    courses: dict[str, PolicyCourse]
    """Each policy's course, by backend."""
    vllm: dict[str, float]
    """What vLLM and Hugging Face make of the same tokens, before anything is sent."""


async def run_both(plan: GpuPlan, processes: RoleProcesses) -> BackendCourses:
    n_policy = max(settings(plan, backend).policy.n_processes for backend in BACKENDS)
    async with engine_of(plan, n_policy) as engine:
        batches = [await engine.rows(step, 0) for step in range(plan.steps)]
        sampled, batches[0] = batches[0], by_hugging_face(plan, batches[0])
        courses = {backend: await course(plan, backend, processes, batches, engine) for backend in BACKENDS}
    return BackendCourses(courses, differences(sampled, batches[0]))


def differences(one: Sequence[TrainRow], other: Sequence[TrainRow]) -> dict[str, float]:
    """How log-probs of the same trained tokens differ."""
    errors = [
        np.abs(own.generation_log_probs - its.generation_log_probs)[own.loss_mask]
        for own, its in zip(one, other, strict=True)
    ]
    return {"mean": float(np.concatenate(errors).mean()), "max": float(np.concatenate(errors).max())}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value.float() for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


def weight_differences(plan: GpuPlan, courses: dict[str, PolicyCourse]) -> dict[str, float]:
    """The two policies' weights after the steps."""
    start, (one, two) = weights(plan.model), (weights(courses[backend].exported) for backend in BACKENDS)
    run_both = one.keys() & two.keys() & start.keys()
    difference = sum(float((one[name] - two[name]).square().sum()) for name in run_both) ** 0.5
    moved = sum(float((one[name] - start[name]).square().sum()) for name in run_both) ** 0.5
    return {
        "tensors": float(len(run_both)),
        "max_abs": max(float((one[name] - two[name]).abs().max()) for name in run_both),
        "moved_max_abs": max(float((one[name] - start[name]).abs().max()) for name in run_both),
        "share_of_movement": difference / moved if moved else float("nan"),
    }


def figures(plan: GpuPlan, one: PolicyCourse) -> dict[str, float | str]:
    error, steady = "train/logprob_error", sorted(one.seconds[1:] or one.seconds)
    step_s = steady[len(steady) // 2]
    courses: dict[str, float | str] = {
        "log-probs against Hugging Face, max": one.steps[0][f"{error}/all/max_abs"],
        "log-probs against Hugging Face, mean": one.steps[0][f"{error}/all/mean_abs"],
        "loss of the first step": one.steps[0]["train/loss"],
        "gradient norm of the first step": one.steps[0]["train/grad_norm"],
        "gradient norm of the last step": one.steps[-1]["train/grad_norm"],
        "seconds of the first step": one.seconds[0],
        "seconds of a step, median of the others": step_s,
        "trained tokens per second": plan.rows * plan.tokens / step_s,
        "gradient norm after a load, against without": one.again["train/grad_norm"] - one.after["train/grad_norm"],
    }
    if one.sent is None:
        return {**courses, "sending": "not measured: no GPU is left for vLLM alone"}
    return {
        **courses,
        "seconds of sending": one.sent.send_s,
        "mismatch with vLLM after it, mean": one.after[f"{error}/current/mean_abs"],
        "mismatch with vLLM after it, max": one.after[f"{error}/current/max_abs"],
    }


def report(plan: GpuPlan, courses: BackendCourses) -> None:
    by_backend = {backend: figures(plan, one) for backend, one in courses.courses.items()}
    weights_apart = weight_differences(plan, courses.courses)
    machine = torch.cuda.get_device_name() if plan.device == "cuda" else "CPU"
    about = {"machine": machine, "precision": plan.precision, "megatron_cfg": plan.megatron, "rows": plan.rows}
    further = {
        "weights apart after the steps": weights_apart,
        "vLLM against Hugging Face, before anything is sent": courses.vllm,
    }
    whole = {"about": about, **by_backend, **further}
    (plan.folder / "report.json").write_text(json.dumps(whole, indent=2, default=str) + "\n")
    print(f"{machine}, {plan.precision}, {plan.rows} rows of {plan.length} tokens, megatron_cfg {plan.megatron}\n")
    print("| | " + " | ".join(by_backend) + " |\n|" + "---|" * (len(by_backend) + 1))
    for name in by_backend[BACKENDS[0]]:
        print(f"| {name} | " + " | ".join(_format(one[name]) for one in by_backend.values()) + " |")
    for name, values in further.items():
        print(f"\n{name}: " + ", ".join(f"{key} {_format(value)}" for key, value in values.items()))


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"


def plan_of(arguments: argparse.Namespace) -> GpuPlan:
    on_gpu = arguments.device == "cuda"
    # Its kernels are TransformerEngine's.
    precision_aware = on_gpu and arguments.precision == "bfloat16" and find_spec("transformer_engine") is not None
    optimizer = {"lr": LR, "weight_decay": 0.0, "use_precision_aware_optimizer": precision_aware}
    megatron: dict[str, Any] = {
        "bridge": arguments.bridge,
        "tensor_model_parallel_size": arguments.tensor,
        "pipeline_model_parallel_size": arguments.pipeline,
        "expert_model_parallel_size": arguments.expert,
        "sequence_parallel": bool(arguments.experts) and arguments.tensor > 1,
        "optimizer": optimizer,
    }
    if arguments.processes:
        megatron["processes"] = arguments.processes
    if arguments.setup_hook:
        megatron["setup_hook"] = arguments.setup_hook
    return GpuPlan(
        folder=arguments.folder.resolve(),
        device=arguments.device,
        precision=arguments.precision,
        shape=SMALL if on_gpu else TINY,
        experts=arguments.experts,
        steps=arguments.steps,
        rows=arguments.rows,
        tokens=arguments.tokens,
        megatron=megatron,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: and a tiny model")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--bridge", choices=("mbridge", "megatron_bridge"), default="mbridge")
    parser.add_argument("--setup-hook", help="`policy.megatron_cfg.setup_hook`")
    parser.add_argument("--processes", type=int, help="of the policy on Megatron; default: as few as its layout needs")
    for name in ("tensor", "pipeline", "expert"):
        parser.add_argument(f"--{name}", type=int, default=1, help=f"size of {name} parallelism")
    parser.add_argument("--experts", type=int, default=0, help="a mixture of so many; 0: none")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=16, help="of a step")
    parser.add_argument("--tokens", type=int, default=448, help="of an answer")
    plan = plan_of(parser.parse_args())
    make(plan)
    n_policy = max(settings(plan, backend).policy.n_processes for backend in BACKENDS)
    cluster = ClusterConfig(gpus_per_node=n_policy if plan.device == "cuda" else 0)
    with open_processes(plan.folder / "logs", cluster) as processes:
        courses = asyncio.run(run_both(plan, processes))
    report(plan, courses)


if __name__ == "__main__":
    main()
