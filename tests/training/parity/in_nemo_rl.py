"""NeMo-RL's losses beside ours, over random numbers: `python -m tests.training.parity.in_nemo_rl FILE`.

Needs   a checkout of NeMo-RL on the path; it is in no package index.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from nemo_rl.algorithms.advantage_estimator import (
    AdvEstimatorConfig,
    GDPOAdvantageEstimator,
    GeneralizedAdvantageEstimator,
    GRPOAdvantageEstimator,
    ReinforcePlusPlusAdvantageEstimator,
)
from nemo_rl.algorithms.loss.loss_functions import ClippedPGLossConfig, ClippedPGLossFn
from nemo_rl.distributed.batched_data_dict import BatchedDataDict
from tests.training.parity.random_batch import CLIP, PLAIN, ROWS, LossDifference, RandomBatch
from tests.training.parity.random_rewards import CRITICS, AdvantageDifference, RandomRewards, kl_in_reward

from paddock.training.core.loss_settings import LossSettings
from paddock.training.grpo.value_config import ValueConfig

ESTIMATORS = {"grpo": GRPOAdvantageEstimator, "reinforce_plus_plus": ReinforcePlusPlusAdvantageEstimator}


def loss_of(**keys: Any) -> Callable[[RandomBatch], torch.Tensor]:
    """NeMo-RL's loss with the keys that ours has. Columns are those of the token that each predicts."""
    config = ClippedPGLossConfig(**{"reference_policy_kl_penalty": 0.0, **keys})

    def shifted(columns: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(columns[:, :1]), columns], dim=1)

    def loss(given: RandomBatch) -> torch.Tensor:
        data = BatchedDataDict(
            {
                "token_mask": shifted(given.mask),
                "sample_mask": torch.ones_like(given.mask[:, 0]),
                "advantages": shifted(given.advantages),
                "prev_logprobs": shifted(given.old),
                "generation_logprobs": shifted(given.engine),
                "reference_policy_logprobs": shifted(given.reference),
                "rewards": given.rewards,
            }
        )
        totals = given.totals
        found: torch.Tensor
        found, _ = ClippedPGLossFn(config)(given.now, data, torch.tensor(totals.rows), torch.tensor(totals.tokens))
        return found

    return loss


def cases() -> dict[str, dict[str, Any]]:
    by_row = {**PLAIN, **ROWS, "sequence_level_importance_ratios": True}
    weighed = {
        **CLIP,
        "use_importance_sampling_correction": True,
        "truncated_importance_sampling_type": "tis",
        "truncated_importance_sampling_ratio": 2.0,
        "truncated_importance_sampling_ratio_min": 0.5,
    }
    kl = {**PLAIN, "reference_policy_kl_penalty": 0.3}
    return {
        "GRPO": {**PLAIN, **ROWS},
        "DAPO": {**PLAIN, "ratio_clip_c": 3.0},
        "GSPO": by_row,
        "CISPO": {**PLAIN, "use_cispo": True},
        "REINFORCE": {**PLAIN, "disable_ppo_ratio": True},
        "on-policy": {**PLAIN, "force_on_policy_ratio": True},
        "token TIS": weighed,
        "token MIS": {**weighed, "truncated_importance_sampling_type": "icepop"},
        "sequence mask": {**weighed, "truncated_importance_sampling_type": "seq-mask-tis"},
        "sequence TIS": {**weighed, **by_row, "use_importance_sampling_correction": True},
        **{f"KL {kind}, corrected": {**kl, "reference_policy_kl_type": kind} for kind in ("k1", "k2", "k3")},
        "VAPO's likelihood": {**PLAIN, "positive_example_nll_weight": 0.1},
        "KL of the engine's samples": {**kl, "use_on_policy_kl_approximation": True},
    }


def losses(batch: RandomBatch) -> dict[str, LossDifference]:
    return {name: batch.compared(loss_of(**keys), **keys) for name, keys in cases().items()}


def advantages_of(loss: LossSettings | None = None, **keys: Any) -> Callable[[RandomRewards], torch.Tensor]:
    """NeMo-RL's advantages, by the keys of its `grpo.adv_estimator`. `loss`: whose KL is taken off rewards."""
    config = AdvEstimatorConfig(**keys)

    def found(given: RandomRewards) -> torch.Tensor:
        prompts = torch.tensor(given.group)[:, None]
        values: torch.Tensor = ESTIMATORS[config.name](config, loss_config(loss)).compute_advantage(
            prompts,
            given.rewards.clone(),
            given.mask,
            logprobs_policy=given.log_probs,
            logprobs_reference=given.reference,
        )
        return values

    return found


def by_parts(config: AdvEstimatorConfig) -> Callable[[RandomRewards], torch.Tensor]:
    """NeMo-RL's advantages of GDPO."""

    def found(given: RandomRewards) -> torch.Tensor:
        prompts = torch.tensor(given.group)[:, None]
        columns = {f"reward/{name}": values.clone() for name, values in given.parts.items()}
        values: torch.Tensor = GDPOAdvantageEstimator(config, loss_config(None)).compute_advantage(
            prompts, None, given.mask, repeated_batch=columns
        )
        return values

    return found


def by_critic(
    value: ValueConfig, loss: LossSettings | None = None
) -> Callable[[RandomRewards], tuple[torch.Tensor, torch.Tensor]]:
    """NeMo-RL's advantages and returns by GAE."""
    names = ("gae_lambda", "gae_gamma", "gae_lambda_value", "gae_lambda_policy", "length_adaptive_alpha")
    config = {"normalize_advantages": True, **{name: getattr(value, name) for name in names}}

    def found(given: RandomRewards) -> tuple[torch.Tensor, torch.Tensor]:
        pair: tuple[torch.Tensor, torch.Tensor]
        pair = GeneralizedAdvantageEstimator(config, loss_config(loss)).compute_advantage(
            None, given.rewards.clone(), given.mask, given.values, given.reference, given.log_probs
        )
        return pair

    return found


def loss_config(loss: LossSettings | None) -> ClippedPGLossConfig:
    names = ("use_kl_in_reward", "reference_policy_kl_penalty", "reference_policy_kl_type")
    return ClippedPGLossConfig(**({} if loss is None else {name: getattr(loss, name) for name in names}))


def compared_advantages(rewards: RandomRewards) -> dict[str, AdvantageDifference]:
    found = {}
    for leave_one_out in (True, False):
        for normalised in (True, False):
            keys: dict[str, Any] = {"use_leave_one_out_baseline": leave_one_out, "normalize_rewards": normalised}
            name = f"{'leave-one-out' if leave_one_out else 'mean of all'}{', normalised' if normalised else ''}"
            found[name] = rewards.compared(advantages_of(**keys), **keys)
            for weights in (None, [1.0, 0.5]):
                own: dict[str, Any] = {"name": "gdpo", "reward_weights": weights}
                theirs = by_parts(AdvEstimatorConfig(**own, **keys))
                found[f"GDPO, {name}, {weights}"] = rewards.compared_by_parts(theirs, adv_estimator=own, **keys)
    for baseline in (True, False):
        own = {"name": "reinforce_plus_plus", "minus_baseline": baseline}
        found[f"REINFORCE++{'-baseline' if baseline else ''}"] = rewards.compared(
            advantages_of(**own), adv_estimator=own
        )
        for kind in ("k1", "k2", "k3"):
            loss = kl_in_reward(kind)
            name = f"REINFORCE++{'-baseline' if baseline else ''}, KL {kind} in reward"
            found[name] = rewards.compared(advantages_of(loss, **own), loss=loss, adv_estimator=own)
    for name, lambdas in CRITICS.items():
        value = ValueConfig.model_validate(lambdas)
        found[name] = rewards.compared_by_critic(by_critic(value), value)
        loss = kl_in_reward("k3")
        found[f"{name}, KL k3 in reward"] = rewards.compared_by_critic(by_critic(value, loss), value, loss)
    return found


def main(file: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # it makes sums of its own in the default type
    file.write_text(
        json.dumps({"losses": losses(RandomBatch.draw()), "advantages": compared_advantages(RandomRewards())})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
