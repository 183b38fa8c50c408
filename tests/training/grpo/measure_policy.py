"""`python measure_policy.py FOLDER`: what the policy on torch does, as numbers, in a line of JSON. It claims nothing.

Runs in the environment that has torch; `test_policy.py` says what the numbers have to be.
"""

import asyncio
import json
import math
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.training.grpo.tiny_policy import RecordingSender, batch, full_disk, make_experts, make_model, settings
from transformers import AutoModelForCausalLM

from paddock.server.vllm.weights.replicas import ReplicaInfo
from paddock.training.core.records import Batch, TrainRow
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import PolicySettings

BY_HAND: dict[str, dict[str, Any]] = {
    "previous": {},
    "generation": {"ratio_against": "generation"},
    "entropy": {"entropy_coef": 0.3},
    "epochs": {},
}
Weights = dict[str, torch.Tensor]
GENTLE: dict[str, Any] = {"optimizer": {"kwargs": {"lr": 0.1, "eps": 1.0, "weight_decay": 0.0}}, "max_grad_norm": None}
"""With this `eps` a first step is nearly the gradient times the learning rate."""


def weights(policy: TorchPolicy) -> Weights:
    return {name: value.detach().clone() for name, value in policy._learner.model.model.named_parameters()}


def distance(one: Weights, other: Weights) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)


async def trained(
    own: PolicySettings, *batches: Batch
) -> tuple[Weights, list[dict[str, float]], list[tuple[int, ...]]]:
    policy = TorchPolicy(own)
    told = [await policy.train(one) for one in batches]
    found = weights(policy)
    await policy.stop()
    return found, [dict(one.metrics) for one in told], [one.masked_rows for one in told]


def plainly(folder: Path, rows: list[TrainRow], against: str, epochs: int = 1) -> tuple[Weights, float]:
    """A step by hand, row by row: the loss as it is in the papers, Adam as it is in the paper."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    means = [torch.zeros_like(value) for value in model.parameters()]
    squares = [torch.zeros_like(value) for value in model.parameters()]
    old: dict[tuple[int, int], torch.Tensor] = {}
    losses = []
    for time in range(1, epochs + 1):
        loss = _plain_loss(model, rows, against, old)
        losses.append(float(loss.detach()))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for value, mean, square in zip(model.parameters(), means, squares, strict=True):
                mean += 0.1 * (value.grad - mean)
                square += 0.001 * (value.grad**2 - square)
                value -= 0.1 * mean / (1 - 0.9**time) / ((square / (1 - 0.999**time)).sqrt() + 1.0)
    return {name: value.detach() for name, value in model.named_parameters()}, math.fsum(losses) / epochs


def _plain_loss(model: Any, rows: list[TrainRow], against: str, old: dict[tuple[int, int], torch.Tensor]) -> Any:
    """`old`: the log-probs before the first pass, by row and position; filled by that."""
    n_tokens = sum(one.tokens for one in rows)
    loss = torch.zeros(())
    for nth, one in enumerate(rows):
        log_probs = model(torch.from_numpy(one.ids)[None]).logits[0].log_softmax(-1)
        for at, on in enumerate(one.loss_mask):
            if not on:
                continue
            if against == "entropy":
                loss = loss + 0.3 * (log_probs[at - 1].exp() * log_probs[at - 1]).sum() / n_tokens
            now = log_probs[at - 1, one.ids[at]]
            before = old.setdefault((nth, at), now.detach())
            engine, advantage = float(one.generation_log_probs[at]), float(one.advantages[at])
            if against == "generation":
                ratio, weight = (now - engine).exp(), 1.0
            else:
                ratio, weight = (now - before).exp(), min(float((before - engine).exp()), 2.0)
            clipped = ratio.clamp(0.8, 1.28)
            loss = loss - weight * torch.minimum(ratio * advantage, clipped * advantage) / n_tokens
    return loss


async def by_hand(folder: Path) -> dict[str, Any]:
    two = batch(lengths=(9, 14))
    found = {}
    for against, terms in BY_HAND.items():
        epochs = 3 if against == "epochs" else 1
        own = settings(folder, terms, grpo={"ppo_epochs": epochs}, train_micro_batch_size=2, **GENTLE)
        after, told, _ = await trained(own, two)
        expected, loss = plainly(folder, two.rows, against, epochs)
        moved = distance(after, {n: v.float() for n, v in (await trained(own))[0].items()})
        found[against] = {"weights": distance(after, expected), "loss": told[0]["train/loss"] - loss, "moved": moved}
    return found


async def invariance(folder: Path) -> dict[str, Any]:
    batches = [batch(step) for step in range(3)]
    halves = [
        each._replace(rows=[one._replace(group=nth // 3, member=nth // 2) for nth, one in enumerate(each.rows)])
        for each in batches
    ]
    # Without a bound on sampling weights: with one, rounding moves weights by 3e-5.
    loss = {"truncated_importance_sampling_type": None}
    one, told_one, _ = await trained(settings(folder, loss, train_micro_batch_size=1), *batches)
    six, told_six, _ = await trained(settings(folder, loss, train_micro_batch_size=6), *batches)
    again, _, _ = await trained(settings(folder, loss, train_micro_batch_size=6), *batches)
    checked, _, _ = await trained(settings(folder, loss, dtensor_cfg={"activation_checkpointing": True}), *batches)
    others = {
        "packed": settings(folder, loss, sequence_packing={"enabled": True, "train_mb_tokens": 40}),
        "padded": settings(folder, loss, dynamic_batching={"enabled": True, "train_mb_tokens": 40}),
    }
    apart = {name: distance(one, (await trained(own, *batches))[0]) for name, own in others.items()}
    of_units: dict[str, Any] = {"mean_over": "rollouts", "token_level_loss": False, "positive_example_nll_weight": 0.1}
    clips: dict[str, Any] = {"clip_cov": {"clip_cov_ratio": 0.3, "clip_cov_lb": 0.05, "clip_cov_ub": 5.0}}
    moved: dict[str, float] = {}
    first, _, _ = await trained(settings(folder))
    for name, terms in {"units": of_units, "clip_cov": clips}.items():
        # Gently: by Adam's usual eps, rounding of a gradient near 0 moves a weight by 2e-5 on some processors.
        means = {**loss, **terms}
        whole, told_whole, _ = await trained(settings(folder, means, train_micro_batch_size=1, **GENTLE), *halves)
        cut, told_cut, _ = await trained(settings(folder, means, train_micro_batch_size=6, **GENTLE), *halves)
        apart[name] = distance(whole, cut)
        moved[name] = distance(whole, first)
    chosen = [[one["train/covariance_chosen_ratio"] for one in told] for told in (told_whole, told_cut)]
    losses = [abs(a["train/loss"] - b["train/loss"]) for a, b in zip(told_one, told_six, strict=True)]
    return {
        "weights": distance(one, six),
        "loss": max(losses),
        "again": distance(six, again),
        "moved": moved,
        "chosen": chosen,
        "checkpointing": distance(one, checked),
        **apart,
    }


async def log_probs(folder: Path) -> dict[str, Any]:
    """Of each row in a padded micro-batch, against a forward pass of the row alone."""
    rows = batch().rows
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = {}
    for temperature in (1.0, 0.7):
        own = settings(folder, train_micro_batch_size=6, generation={"temperature": temperature})
        policy = TorchPolicy(own)
        scored = policy._learner.score(rows, range(len(rows)))
        with torch.no_grad():
            worst = 0.0
            for nth, one in enumerate(rows):
                logits = model(torch.from_numpy(one.ids)[None]).logits[0] / temperature
                at = np.flatnonzero(one.loss_mask)
                expected = logits.log_softmax(-1)[at - 1, one.ids[at]]
                worst = max(worst, float((scored[nth] - expected).abs().max()))
        found[str(temperature)] = worst
        await policy.stop()
    return found


async def resumed(folder: Path) -> dict[str, Any]:
    """Six steps, and three, a save, a load elsewhere and three."""
    parts = [
        {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": {"start_factor": 0.1, "total_iters": 4}},
        {"name": "torch.optim.lr_scheduler.ConstantLR", "kwargs": {"factor": 1.0, "total_iters": 1000}},
        {"milestones": [4]},
    ]
    own = settings(folder, scheduler=parts, train_micro_batch_size=2)
    batches = [batch(step) for step in range(6)]
    straight, told, _ = await trained(own, *batches)
    found = {"lr": [one["train/lr"] for one in told]}
    for n_before in (0, 3):
        place = folder / f"state-{n_before}"
        first, second = TorchPolicy(own), TorchPolicy(own)
        for one in batches[:n_before]:
            await first.train(one)
        await first.save(place)
        draws = [float(torch.rand(())) for _ in range(2)]
        await second.load(place)
        drawn = [float(torch.rand(())) for _ in range(2)]
        for one in batches[n_before:]:
            last = await second.train(one)
        equal = distance(straight, weights(second)) == 0 and dict(last.metrics) == told[-1]
        found[f"exact_after_{n_before}"] = [equal and draws == drawn]
        await first.stop()
        await second.stop()
    return found


async def left_out(folder: Path) -> dict[str, Any]:
    """A row that the engine sampled otherwise, under a threshold, against a batch without it."""
    model = settings(folder)
    told = await _as_scored(model, batch())
    wrong = told.rows[2]
    shifted = np.where(wrong.loss_mask, wrong.generation_log_probs - np.float32(3), np.float32(0))
    wrong = wrong._replace(generation_log_probs=shifted)
    rows = [*told.rows[:2], wrong, *told.rows[3:]]
    own = settings(folder, threshold=1.5, train_micro_batch_size=6)
    after, metrics, masked = await trained(own, told._replace(rows=rows))
    without, _, _ = await trained(own, told._replace(rows=[*told.rows[:2], *told.rows[3:]]))
    agreement = {name: metrics[0][f"train/logprob_error/all/{name}"] for name in ("max_abs", "tokens")}
    nobody = await trained(settings(folder, threshold=1.0 - 1e-9), told._replace(rows=[wrong]))
    return {
        "masked": masked[0],
        "weights": distance(after, without),
        **agreement,
        "tokens_in_all": told.tokens,
        "nobody": [nobody[1][0]["train/rows"], distance(nobody[0], (await trained(own))[0])],
    }


async def _as_scored(own: PolicySettings, given: Batch) -> Batch:
    """The engine's log-probs are the trainer's own."""
    policy = TorchPolicy(own)
    scored = policy._learner.score(given.rows, range(len(given.rows)))
    await policy.stop()
    rows = []
    for nth, one in enumerate(given.rows):
        log_probs = np.zeros(len(one.ids), np.float32)
        log_probs[one.loss_mask] = scored[nth].numpy()
        rows.append(one._replace(generation_log_probs=log_probs))
    return given._replace(rows=rows)


async def several_steps(folder: Path) -> dict[str, Any]:
    given = await _as_scored(settings(folder), batch())
    own = settings(folder, train_global_batch_size=2, train_micro_batch_size=2)
    _, told, _ = await trained(own, given)
    _, forced, _ = await trained(
        own.model_copy(update={"loss": own.loss.model_copy(update={"force_on_policy_ratio": True})}), given
    )
    _, single, _ = await trained(settings(folder, train_micro_batch_size=2), given)
    _, twice, _ = await trained(own.model_copy(update={"grpo": own.grpo.model_copy(update={"ppo_epochs": 2})}), given)
    names = (
        "train/optimizer_steps",
        "train/probs_ratio_min",
        "train/probs_ratio_max",
        "train/logprob_error/current/max_abs",
    )
    return {
        key: [one[0][name] for name in names]
        for key, one in (("three", told), ("forced", forced), ("one", single), ("twice", twice))
    }


async def alike(folder: Path) -> dict[str, Any]:
    """Rows without an advantage against the same rows with advantages that move nothing, which are computed."""

    def with_advantage(value: float, *which: int) -> list[Batch]:
        given = [batch(step) for step in range(3)]
        changed = [
            [
                one._replace(advantages=np.float32(value) * one.loss_mask) if step == 1 or nth in which else one
                for nth, one in enumerate(each.rows)
            ]
            for step, each in enumerate(given)
        ]
        return [each._replace(rows=rows) for each, rows in zip(given, changed, strict=True)]

    cases = {
        "one": settings(folder, train_micro_batch_size=2),
        "rows": settings(folder, {"token_level_loss": False}, train_micro_batch_size=2),
        "three": settings(folder, train_global_batch_size=2),
        "kl": settings(folder, {"reference_policy_kl_penalty": 0.1}),
        "entropy": settings(folder, {"entropy_coef": 0.1}),
    }
    found: dict[str, Any] = {}
    for name, own in cases.items():
        after, told, _ = await trained(own, *with_advantage(0.0, 1, 4, 5))
        computed, _, _ = await trained(own, *with_advantage(1e-30, 1, 4, 5))
        rows = [[one["train/computed_rows"], one["train/rows"]] for one in told]
        found[name] = {"weights": distance(after, computed), "rows": rows}
    alone = batch()._replace(rows=[batch().rows[0], batch().rows[2], batch().rows[3]])
    _, (mixed, *_), _ = await trained(cases["one"], *with_advantage(0.0, 1, 4, 5))
    _, (separate,), _ = await trained(cases["one"], alone)
    means = ("approx_entropy", "entropy", "token_mult_prob_error", "sampling_importance_ratio")
    found["means"] = max(abs(mixed[f"train/{name}"] - separate[f"train/{name}"]) for name in means)
    return found


async def divergence(folder: Path) -> dict[str, Any]:
    own = settings(folder, {"reference_policy_kl_penalty": 0.1})
    _, told, _ = await trained(own, batch(0), batch(0), batch(0))
    return {"kl": [one["train/kl_penalty"] for one in told]}


async def bad(folder: Path) -> dict[str, Any]:
    """A gradient that is no number; a batch without rows."""
    given = batch()
    first = given.rows[0]
    infinite = np.where(first.loss_mask, np.float32(math.inf), np.float32(0))
    broken = given._replace(rows=[first._replace(advantages=infinite)])
    own = settings(folder)
    before, _, _ = await trained(own)
    after, told, _ = await trained(own, broken)
    empty, nothing, _ = await trained(own, given._replace(rows=[]))
    errors = []
    for wrong in (first._replace(ids=np.tile(first.ids, 20)), first._replace(loss_mask=np.ones_like(first.loss_mask))):
        policy = TorchPolicy(own)
        try:
            await policy.train(given._replace(rows=[wrong]))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        await policy.stop()
    try:
        TorchPolicy(settings(folder / "nowhere"))
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
    return {
        "skipped": [told[0]["train/skipped_updates"], distance(before, after)],
        "empty": [nothing[0]["train/optimizer_steps"], distance(before, empty)],
        "errors": errors,
    }


async def unreadable(folder: Path) -> list[str]:
    """The errors of states that are damaged, or of the version before, and of a full disk."""
    policy, errors = TorchPolicy(settings(folder)), []
    for name in ("shards/.metadata", "policy.pt", "shards"):
        state = folder / "unreadable" / name
        await policy.save(state)
        hurt = state / name
        if hurt.is_dir():
            shutil.rmtree(hurt)
        else:
            hurt.write_bytes(hurt.read_bytes()[:20])
        try:
            await policy.load(state)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    for background in (False, True):
        try:
            with full_disk():
                await policy.save(folder / "unreadable" / f"full-{background}", background=background)
                await policy.finish_save()
        except BaseException as error:
            errors.append(f"{type(error).__name__}: {error}")
    await policy.stop()
    return errors


async def precision(folder: Path) -> dict[str, Any]:
    """bfloat16 in the computation, float32 in what is learned; what is exported is what was computed with."""
    found: dict[str, Any] = {}
    for name in ("float32", "bfloat16"):
        policy = TorchPolicy(settings(folder, precision=name))
        told = await policy.train(batch())
        place = folder / f"export-{name}"
        await policy.export(place)
        exported = AutoModelForCausalLM.from_pretrained(place, dtype="auto")
        own = weights(policy)
        found[name] = {
            "loss": told.metrics["train/loss"],
            "learned": str(next(iter(own.values())).dtype),
            "exported": str(exported.dtype),
            "same": all(torch.equal(value, own[key].to(value.dtype)) for key, value in exported.named_parameters()),
            "files": sorted(file.name for file in place.iterdir()),
        }
        await policy.stop()
    half = [
        settings(folder, precision="bfloat16", dtensor_cfg={"activation_checkpointing": on}) for on in (True, False)
    ]
    ended = [(await trained(own, batch(), batch(1)))[0] for own in half]
    found["checkpointing"] = distance(*ended)
    policy = TorchPolicy(settings(folder, {"reference_policy_kl_penalty": 0.1}, precision="bfloat16"))
    learner, rows = policy._learner, batch().rows
    first, fixed = (learner.score(rows, range(len(rows)), reference=on) for on in (False, True))
    found["reference"] = {
        "apart": max(float((first[nth] - fixed[nth]).abs().max()) for nth in first),
        "held": sorted({str(value.dtype) for value in learner._reference.model.parameters()}),
    }
    await policy.stop()
    return found


async def experts(folder: Path) -> dict[str, Any]:
    """A model whose weights transformers holds otherwise than a checkpoint does."""
    place, kept = folder / "experts", RecordingSender()
    make_experts(place)
    policy = TorchPolicy(settings(place), sender=kept)
    replica = ReplicaInfo("policy-0", "http://127.0.0.1:9", 0)
    await policy.send(0, [replica], clear_cache=True)
    load_file = import_module("safetensors.torch").load_file
    stored = load_file(place / "model.safetensors")
    first = {name: bool(torch.equal(value, stored[name])) for name, value in kept.weights.items() if name in stored}
    await policy.train(batch())
    await policy.send(1, [replica], clear_cache=True)
    await policy.export(place / "export")
    await policy.stop()
    exported = load_file(place / "export" / "model.safetensors")
    return {
        "names": sorted(kept.weights) == sorted(stored) == sorted(exported),
        "first": [len(first), all(first.values())],
        "learned": all(torch.equal(value, exported[name]) for name, value in kept.weights.items()),
        "moved": sum(not torch.equal(value, stored[name]) for name, value in exported.items()),
    }


def measures() -> Iterator[Any]:
    yield from (by_hand, invariance, log_probs, resumed, left_out, several_steps, alike, divergence, bad, unreadable)
    yield from (precision, experts)


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    make_model(folder)
    found = {one.__name__: asyncio.run(one(folder)) for one in measures()}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
