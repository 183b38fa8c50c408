"""`python measure_critic.py FOLDER`: what a tiny policy learns with a critic, as numbers, in a line of JSON. It claims
nothing.

Task: eight tokens of sixteen; the reward is the share of those that are even. Runs in the environment that has torch;
`test_critic.py` says what the numbers have to be.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.training.grpo.tiny_policy import make_model, settings
from transformers import Qwen3ForCausalLM

from paddock.training.core.records import Batch, TrainRow, VersionSpan
from paddock.training.grpo.policy import TorchPolicy
from paddock.training.grpo.policy_settings import PolicySettings
from paddock.training.grpo.value_config import ValueConfig

VOCABULARY, PROMPT, LENGTH, ROLLOUTS, STEPS, WARM_UP = 16, 3, 11, 64, 30, 5
VALUE = {"enabled": True, "policy_training_start_step": WARM_UP, "optimizer": {"kwargs": {"lr": 5e-3}}}


def policy_settings(folder: Path, micro: int = 16, **value: Any) -> PolicySettings:
    optimizer = {"kwargs": {"lr": 3e-3, "weight_decay": 0.0}}
    own = settings(folder, optimizer=optimizer, train_micro_batch_size=micro, max_grad_norm=1.0)
    return own.model_copy(update={"value": ValueConfig.model_validate({**VALUE, **value})})


def sampled(model: Qwen3ForCausalLM, step: int) -> Batch:
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(VOCABULARY, (ROLLOUTS, PROMPT), generator=generator)
    log_probs = [torch.zeros(ROLLOUTS, PROMPT)]
    with torch.no_grad():
        for _ in range(LENGTH - PROMPT):
            known = model(ids).logits[:, -1].log_softmax(-1)
            ids = torch.cat([ids, torch.multinomial(known.exp(), 1, generator=generator)], 1)
            log_probs.append(known.gather(1, ids[:, -1:]))
    rewards = (ids[:, PROMPT:] % 2 == 0).float().mean(1)
    mask, engine = np.arange(LENGTH) >= PROMPT, torch.cat(log_probs, 1).numpy()
    rows = [
        TrainRow(
            group=nth,
            member=0,
            sample=0,
            ids=own.numpy().astype(np.int32),
            loss_mask=mask,
            generation_log_probs=engine[nth],
            advantages=np.zeros(LENGTH, np.float32),
            reward=float(rewards[nth]),
            oldest=step,
            newest=step,
            versions=(VersionSpan(PROMPT, LENGTH, step),),
        )
        for nth, own in enumerate(ids)
    ]
    return Batch(step, rows, [], [], [])


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def all_weights(policy: TorchPolicy) -> list[dict[str, torch.Tensor]]:
    """Of the policy, and of its critic."""
    learner = policy._learner
    assert learner.critic is not None
    return [weights(learner.model.model), weights(learner.critic.model.module)]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


async def learning(folder: Path) -> dict[str, Any]:
    policy = TorchPolicy(policy_settings(folder))
    learner = policy._learner
    first, metrics, rewards, kept = weights(learner.model.model), [], [], {}
    for step in range(STEPS):
        batch = sampled(learner.model.model, step)
        rewards.append(float(np.mean([row.reward for row in batch.rows])))
        metrics.append(dict((await policy.train(batch)).metrics))
        if step == WARM_UP - 1:
            kept = {
                "policy_stays": same(first, weights(learner.model.model)),
                "values_before": metrics[0]["train/value/mean"],
            }
        if step == STEPS - 3:
            await policy.save(folder / "state")
    ended = all_weights(policy)
    await policy.stop()
    again = TorchPolicy(policy_settings(folder))
    await again.load(folder / "state")
    for step in (STEPS - 2, STEPS - 1):
        await again.train(sampled(again._learner.model.model, step))
    resumed = all(map(same, ended, all_weights(again)))
    await again.stop()
    return {
        **kept,
        "rewards": rewards,
        "value_loss": [one["train/value/loss"] for one in metrics],
        "trained_from": next(nth for nth, one in enumerate(metrics) if "train/loss" in one),
        "resumed": resumed,
    }


async def invariance(folder: Path) -> float:
    """How far values in micro-batches of one are from those in micro-batches of all, padded."""
    values = []
    for micro in (1, 64):
        policy = TorchPolicy(policy_settings(folder, micro, policy_training_start_step=0))
        batch = sampled(policy._learner.model.model, 0)
        rows = [row._replace(ids=row.ids[:-n], loss_mask=row.loss_mask[:-n]) for n, row in enumerate(batch.rows[:6], 1)]
        rows = [
            row._replace(
                generation_log_probs=row.generation_log_probs[: len(row.ids)], advantages=row.advantages[: len(row.ids)]
            )
            for row in rows
        ]
        await policy.train(Batch(0, rows, [], [], []))
        critic = policy._learner.critic
        assert critic is not None
        values.append(critic.values(rows, range(len(rows))))
        await policy.stop()
    return max(float((values[0][nth] - values[1][nth]).abs().max()) for nth in values[0])


async def scaled(folder: Path, scale: float) -> tuple[float, float]:
    """Loss and norm of the gradient of the critic's first step, where its loss is scaled so."""
    policy = TorchPolicy(policy_settings(folder, loss_scale=scale))
    metrics = (await policy.train(sampled(policy._learner.model.model, 0))).metrics
    await policy.stop()
    return metrics["train/value/loss"], metrics["train/value/grad_norm"]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    make_model(folder / "model", VOCABULARY)
    found = asyncio.run(learning(folder / "model"))
    found["scaled"] = [asyncio.run(scaled(folder / "model", scale)) for scale in (1.0, 0.4)]
    found["apart"] = asyncio.run(invariance(folder / "model"))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
