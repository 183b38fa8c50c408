"""SkyRL's losses beside ours, over random numbers: `python -m tests.training.parity.in_skyrl FILE`, written as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import AlgorithmConfig
from tests.training.parity.random_batch import CLIP, PLAIN, PROMPTS, ROWS, LossDifference, RandomBatch
from tests.training.parity.random_rewards import AdvantageDifference, RandomRewards

LONGEST = 100


def algorithm() -> AlgorithmConfig:
    found = AlgorithmConfig()
    found.eps_clip_low, found.eps_clip_high = CLIP["ratio_clip_min"], CLIP["ratio_clip_max"]
    found.cispo.cispo_eps_clip_low, found.cispo.cispo_eps_clip_high = found.eps_clip_low, found.eps_clip_high
    found.clip_ratio_c = 3.0
    return found


def loss_of(kind: str, mean: str = "token_mean", tis: str | None = None) -> Callable[[RandomBatch], torch.Tensor]:
    """SkyRL's loss of that name."""
    config = algorithm()
    config.policy_loss_type, config.loss_reduction = kind, mean
    config.off_policy_correction.tis_ratio_type = tis
    config.off_policy_correction.token_tis_ratio_clip_high = 2.0
    config.off_policy_correction.sequence_tis_ratio_clip_high = 2.0

    def loss(given: RandomBatch) -> torch.Tensor:
        scaled = ppo_utils.apply_loss_reduction_to_advantages_minibatch(
            given.advantages, given.mask, mean, len(given.mask), LONGEST, PROMPTS
        )
        found: torch.Tensor
        found, _ = ppo_utils.PolicyLossRegistry.get(kind)(
            given.now, given.old, scaled, config=config, loss_mask=given.mask, rollout_logprobs=given.engine
        )
        return found

    return loss


def losses(batch: RandomBatch) -> dict[str, LossDifference]:
    tis = {**CLIP, "truncated_importance_sampling_ratio": 2.0, "truncated_importance_sampling_type": "tis"}
    return {
        "GRPO": batch.compared(loss_of("regular", "sequence_mean"), **PLAIN, **ROWS),
        "DAPO": batch.compared(loss_of("dual_clip"), **PLAIN, ratio_clip_c=3.0),
        "Dr. GRPO": batch.compared(
            loss_of("regular", "seq_mean_token_sum_norm"), **PLAIN, **ROWS, constant_length_tokens=LONGEST
        ),
        "mean over prompts": batch.compared(loss_of("regular", "prompt_mean"), **PLAIN, **ROWS, mean_over="prompts"),
        "GSPO": batch.compared(
            loss_of("gspo", "sequence_mean"), **PLAIN, **ROWS, sequence_level_importance_ratios=True
        ),
        "CISPO": batch.compared(loss_of("cispo"), **PLAIN, use_cispo=True),
        "SAPO": batch.compared(loss_of("sapo", "sequence_mean"), **PLAIN, **ROWS, sapo={}),
        "token TIS": batch.compared(loss_of("regular", tis="token"), **tis),
        "sequence TIS": batch.compared(loss_of("regular", tis="sequence"), **tis, importance_sampling_level="sequence"),
    }


def advantages_of(name: str, **keys: Any) -> Callable[[RandomRewards], torch.Tensor]:
    """SkyRL's advantages of that name."""

    def found(given: RandomRewards) -> torch.Tensor:
        values: torch.Tensor
        values, _ = ppo_utils.AdvantageEstimatorRegistry.get(name)(
            token_level_rewards=given.at_end, response_mask=given.mask, index=given.group, **keys
        )
        return values

    return found


def compared_advantages(rewards: RandomRewards) -> dict[str, AdvantageDifference]:
    own: dict[str, Any] = {"use_leave_one_out_baseline": False}
    return {
        "GRPO": rewards.compared(advantages_of("grpo", grpo_norm_by_std=True), **own),
        "RLOO": rewards.compared(advantages_of("rloo"), normalize_rewards=False),
        "MaxRL": rewards.compared(advantages_of("maxrl"), adv_estimator={"name": "maxrl"}),
    }


def main(file: Path) -> None:
    torch.set_num_threads(1)
    found = {"losses": losses(RandomBatch.draw()), "advantages": compared_advantages(RandomRewards())}
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
