"""`python measure_layouts.py FOLDER RANK CASES`: one of the processes of a policy on Megatron-core, in one layout after
the other; rank 0 writes a line of JSON with how far each is from the policy on torch. It claims nothing.

CASES: JSON, a list of `{name, model, world_size, port, megatron, loss, policy, torch, ...}`; the models are in FOLDER;
`torch`: the policy's settings on torch, where they differ. Runs in the environment that has torch; `test_layouts.py`
says what the numbers have to be.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from tests.training.grpo.megatron.tiny import batch, settings
from tests.training.grpo.tiny_policy import RecordingSender

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.core.records import TrainRow
from paddock.training.grpo.language_model import checkpoint_form
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.megatron.policy import MegatronPolicy
from paddock.training.grpo.policy_settings import SINGLE_RANK, PolicySettings, RankInfo
from paddock.training.grpo.sharding import ShardGroup
from paddock.training.grpo.training_step import FixedLogProbs, computed_part

Weights = Mapping[str, torch.Tensor]
STEPS = 5


class Torch(NamedTuple):
    """What the policy on torch found."""

    log_probs: dict[int, torch.Tensor]
    gradient: Weights
    metrics: list[Mapping[str, float]]
    weights: Weights


def of_torch(own: PolicySettings) -> Torch:
    learner = Learner(own, ShardGroup(SINGLE_RANK, torch.device("cpu")))
    model, rows = learner.model.model, batch().rows
    log_probs = learner.score(rows, range(len(rows)))
    learner.gradient(rows, computed_part(rows, range(len(rows)), every_row=True), FixedLogProbs(None, log_probs))
    found = {n: torch.zeros_like(v) if v.grad is None else v.grad.clone() for n, v in model.named_parameters()}
    gradient = checkpoint_form(model, found)
    metrics = [learner.train(batch(step)).metrics for step in range(STEPS)]
    weights = checkpoint_form(model, {name: value.detach() for name, value in model.named_parameters()})
    return Torch(log_probs, gradient, metrics, weights)


class Megatron:
    """A policy, whose work is looked at from inside."""

    def __init__(self, own: PolicySettings, place: RankInfo) -> None:
        self.kept = RecordingSender()
        self.policy = MegatronPolicy(own, place, sender=self.kept)
        self.learner = self.policy._learner

    def inside(self, work: Callable[[], Any]) -> Any:
        """In its thread, where the set-up hook was called."""
        return self.policy._thread.submit(work).result()

    def log_probs(self) -> dict[int, torch.Tensor]:
        rows = batch().rows
        found: dict[int, torch.Tensor] = self.inside(lambda: self.learner.score(rows, range(len(rows))))
        return found

    async def weights(self) -> Weights:
        await self.policy.send(1, [ReplicaInfo("policy-0", "http://127.0.0.1:9", 0)], clear_cache=True)
        return self.kept.weights

    def gradient(self) -> Weights:
        """By the way that weights go: in their place for a moment."""
        found: Weights = self.inside(self._gradient)
        return found

    def _gradient(self) -> Weights:
        rows = batch().rows
        known = FixedLogProbs(None, self.learner.score(rows, range(len(rows)), reference=True))
        return self.exported_gradient(rows, known)

    def exported_gradient(self, rows: Sequence[TrainRow], known: FixedLogProbs) -> Weights:
        """To be called in its thread."""
        self.learner.gradient(rows, computed_part(rows, range(len(rows)), every_row=True), known)
        parameters = [one for model in self.learner.models for one in model.parameters()]
        kept = [one.detach().clone() for one in parameters]
        with torch.no_grad():
            for one in parameters:
                one.copy_(one.main_grad if hasattr(one, "main_grad") else torch.zeros_like(one))
            found = {name: value.clone() for name, value in self.learner.conversion.export(self.learner.models)}
            for one, value in zip(parameters, kept, strict=True):
                one.copy_(value)
        return found


def apart(one: Weights, other: Weights) -> float:
    assert set(one) == set(other), set(one) ^ set(other)
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def relatively(one: Weights, other: Weights) -> dict[str, float]:
    """Of each tensor's maximum."""
    return {name: float((one[name] - other[name]).abs().max() / other[name].abs().max().clamp(1e-9)) for name in other}


async def measured(folder: Path, rank: int, case: dict[str, Any], torches: dict[str, Torch]) -> dict[str, Any]:
    megatron = {"processes": case["world_size"], **case["megatron"]}
    own = settings(folder / case["model"], megatron, case.get("loss"), **case.get("policy", {}))
    one = Megatron(own, RankInfo(rank, case["world_size"], master_port=case["port"]))
    if case.get("without_finalizing"):
        from megatron.core.utils import get_model_config  # after the hook

        get_model_config(one.learner.models[0]).finalize_model_grads_func = None
    imported, log_probs = await one.weights(), one.log_probs()
    sharded = own.policy.megatron_cfg.optimizer.use_distributed_optimizer
    gradient = None if sharded else one.gradient()
    nll = await one.policy.token_nll(batch())
    micros = one.learner._micro_batches(batch().rows, range(len(batch().rows)), learn=True)
    told = [(await one.policy.train(batch(step))).metrics for step in range(STEPS)]
    learnt = await one.weights()
    await one.policy.stop()
    if rank:
        return {}
    on_torch = case.get("torch", case.get("policy", {}))
    same = json.dumps([case["model"], case.get("loss"), on_torch])
    if same not in torches:
        torches[same] = of_torch(settings(folder / case["model"], megatron, case.get("loss"), **on_torch))
    known = torches[same]
    files = load_file(folder / case["model"] / "model.safetensors")
    return {
        "log_probs": max(float((log_probs[nth] - value).abs().max()) for nth, value in known.log_probs.items()),
        "micros": [micro.lengths for micro in micros],
        "nll": [nll.total, nll.tokens, -sum(float(value.double().sum()) for value in known.log_probs.values())],
        "imported": set(files) == set(imported) and all(torch.equal(files[name], imported[name]) for name in files),
        "gradient": None if gradient is None else relatively(gradient, known.gradient),
        "metrics": [dict(one) for one in told],
        "torch": [dict(one) for one in known.metrics],
        "weights": apart(learnt, known.weights),
        "moved": apart(imported, known.weights),
    }


async def main(folder: Path, rank: int, cases: list[dict[str, Any]]) -> None:
    torches: dict[str, Torch] = {}
    found = {case["name"]: await measured(folder, rank, case, torches) for case in cases}
    if rank == 0:
        sys.stdout.write("\n" + json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])))
