"""verl's losses beside ours, over random numbers: `python -m tests.training.parity.in_verl FILE`, written as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from tests.training.parity.random_batch import CLIP, PLAIN, ROWS, LossDifference, RandomBatch
from tests.training.parity.random_rewards import CRITICS, AdvantageDifference, RandomRewards, kl_in_reward
from verl.trainer.ppo.core_algos import (
    agg_loss,
    compute_gae_advantage_return,
    get_adv_estimator_fn,
    get_policy_loss_fn,
    kl_penalty,
)
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights, compute_rollout_rejection_mask
from verl.workers.config import ActorConfig
from verl.workers.config.actor import PolicyLossConfig

from paddock.training.grpo.value_config import ValueConfig

DUAL_CLIP = 3.0
Theirs = Callable[[RandomBatch], torch.Tensor]


def actor(**keys: Any) -> ActorConfig:
    given = {"clip_ratio_low": CLIP["ratio_clip_min"], "clip_ratio_high": CLIP["ratio_clip_max"], **keys}
    return ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=1, clip_ratio_c=DUAL_CLIP, **given
    )  # fmt: skip


def covariance(**keys: float) -> ActorConfig:
    return actor(policy_loss=PolicyLossConfig(clip_cov_lb=0.2, clip_cov_ub=2.0, **keys))


def loss_of(kind: str, mean: str = "token-mean", *, weights: Any = None, config: ActorConfig | None = None) -> Theirs:
    """verl's loss of that name. `weights`: of a batch, those of its sampling."""

    def loss(given: RandomBatch) -> torch.Tensor:
        found, _ = get_policy_loss_fn(kind)(
            old_log_prob=given.old,
            log_prob=given.now,
            advantages=given.advantages,
            response_mask=given.mask,
            loss_agg_mode=mean,
            config=config or actor(),
            rollout_is_weights=None if weights is None else weights(given),
        )
        return found

    return loss


def sampling(level: str, threshold: float | str) -> Callable[[RandomBatch], torch.Tensor]:
    """verl's sampling weights."""

    def weights(given: RandomBatch) -> torch.Tensor:
        found, _ = compute_rollout_correction_weights(
            given.old - given.engine, given.mask, rollout_is=level, rollout_is_threshold=threshold
        )
        return found

    return weights


def rejected(statistic: str, threshold: str) -> Theirs:
    """verl's loss over what its rejection leaves, divided by all tokens as ours is."""

    def loss(given: RandomBatch) -> torch.Tensor:
        mask, _ = compute_rollout_rejection_mask(given.old - given.engine, given.mask, statistic, threshold)
        left = given._replace(mask=mask)
        return loss_of("vanilla", "token-sum")(left) / given.mask.sum()

    return loss


def kl_added(kind: str, mean: str = "token-mean") -> Theirs:
    def loss(given: RandomBatch) -> torch.Tensor:
        terms = kl_penalty(given.now, given.reference, kind)
        return loss_of("vanilla", mean)(given) + 0.3 * agg_loss(terms, given.mask, mean)

    return loss


def with_entropy(given: RandomBatch) -> torch.Tensor:
    return loss_of("vanilla")(given) - 0.1 * agg_loss(given.entropies, given.mask, "token-mean")


def losses(batch: RandomBatch) -> dict[str, LossDifference]:
    dual = {**PLAIN, "ratio_clip_c": DUAL_CLIP}
    weighed = {**CLIP, "ratio_clip_c": DUAL_CLIP, "truncated_importance_sampling_ratio": 2.0}
    masked: dict[str, Any] = {
        "truncated_importance_sampling_type": "icepop",
        "truncated_importance_sampling_ratio_min": 0.5,
    }
    by_row = {**PLAIN, **ROWS, "sequence_level_importance_ratios": True}
    tis: dict[str, Any] = {**weighed, "truncated_importance_sampling_type": "tis"}
    in_rows: dict[str, Any] = {"importance_sampling_level": "sequence"}
    constant = actor(global_batch_info={"loss_scale_factor": 100})
    clips = {"clip_cov_ratio": 1.0, "clip_cov_lb": 0.2, "clip_cov_ub": 2.0}
    gates = {"temperature_positive": 1.3, "temperature_negative": 1.7}
    kl = {**dual, "reference_policy_kl_penalty": 0.3}
    plain_kl = {**kl, "reference_policy_kl_gradient": "plain"}
    found = {
        "GRPO": batch.compared(loss_of("vanilla", "seq-mean-token-mean"), **dual, **ROWS),
        "DAPO": batch.compared(loss_of("vanilla"), **dual),
        "Dr. GRPO": batch.compared(
            loss_of("vanilla", "seq-mean-token-sum-norm", config=constant),
            **dual, **ROWS, constant_length_tokens=100,
        ),
        "sums of rows": batch.compared(
            loss_of("vanilla", "seq-mean-token-sum"), **dual, **ROWS, constant_length_tokens=1
        ),
        "GSPO": batch.compared(loss_of("gspo", "seq-mean-token-mean"), **by_row),
        "CISPO": batch.compared(loss_of("cispo"), **PLAIN, use_cispo=True),
        "SAPO": batch.compared(
            loss_of("sapo", config=actor(tau_pos=1.3, tau_neg=1.7)), **PLAIN, **ROWS, sapo=gates
        ),
        # Of all candidates: verl chooses some of them by random numbers of its own.
        "Clip-Cov": batch.compared(loss_of("clip_cov", config=covariance(clip_cov_ratio=1.0)), **PLAIN, clip_cov=clips),
        "KL-Cov": batch.compared(
            loss_of("kl_cov", config=covariance(kl_cov_ratio=0.3, ppo_kl_coef=0.4)),
            **PLAIN, kl_cov={"kl_cov_ratio": 0.3, "ppo_kl_coef": 0.4},
        ),
        "REINFORCE": batch.compared(loss_of("gpg"), **PLAIN, disable_ppo_ratio=True),
        "entropy bonus": batch.compared(with_entropy, **dual, entropy_coef=0.1),
        "token TIS": batch.compared(loss_of("vanilla", weights=sampling("token", 2.0)), **tis),
        "token MIS": batch.compared(loss_of("vanilla", weights=sampling("token", "0.5_2.0")), **weighed, **masked),
        "sequence TIS": batch.compared(loss_of("vanilla", weights=sampling("sequence", 2.0)), **tis, **in_rows),
        "sequence MIS": batch.compared(
            loss_of("vanilla", weights=sampling("sequence", "0.5_2.0")), **weighed, **masked, **in_rows
        ),
        "KL k1, plain": batch.compared(kl_added("k1"), **plain_kl, reference_policy_kl_type="k1"),
        "KL k2, plain": batch.compared(kl_added("k2"), **plain_kl, reference_policy_kl_type="k2"),
        "KL k3, plain": batch.compared(kl_added("k3"), **plain_kl),
        "KL k3, corrected": batch.compared(kl_added("k3+"), **kl),
    }  # fmt: skip
    for statistic in ("token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_mean_k1", "seq_mean_k3", "seq_max_k2"):
        high = 1.2 if statistic.endswith("k1") else 0.12
        rejection = {"statistic": statistic, "high": high}
        found[f"rejection {statistic}"] = batch.compared(rejected(statistic, str(high)), **dual, rejections=[rejection])
    return found


def advantages_of(name: str, kind: str | None = None, **keys: Any) -> Callable[[RandomRewards], torch.Tensor]:
    """verl's advantages of that name. `kind`: verl's name of the KL estimate that is taken off rewards."""
    config = OmegaConf.create({"gamma": 1.0, "norm_adv_by_std_in_grpo": True, **keys})

    def found(given: RandomRewards) -> torch.Tensor:
        values: torch.Tensor
        own = {"norm_adv_by_std_in_grpo": config.norm_adv_by_std_in_grpo} if name == "grpo" else {}
        index = {} if name == "reinforce_plus_plus" else {"index": given.group}
        values, _ = get_adv_estimator_fn(name)(
            token_level_rewards=charged(given, kind), response_mask=given.mask, config=config, **index, **own
        )
        return values

    return found


def charged(given: RandomRewards, kind: str | None) -> torch.Tensor:
    """The rewards of tokens, less the KL as in verl's `apply_kl_penalty`."""
    if kind is None:
        return given.at_end
    divergence: torch.Tensor = kl_penalty(given.log_probs, given.reference, kl_penalty=kind)
    return given.at_end - 0.3 * divergence * given.mask


def by_critic(
    value: ValueConfig, kind: str | None = None
) -> Callable[[RandomRewards], tuple[torch.Tensor, torch.Tensor]]:
    """verl's advantages and returns by GAE."""

    def found(given: RandomRewards) -> tuple[torch.Tensor, torch.Tensor]:
        pair: tuple[torch.Tensor, torch.Tensor] = compute_gae_advantage_return(
            charged(given, kind), given.values, given.mask, value.gae_gamma, value.gae_lambda
        )
        return pair

    return found


def kl_in_rewards(rewards: RandomRewards, of_n: float) -> dict[str, AdvantageDifference]:
    value = ValueConfig.model_validate(CRITICS["GAE"])
    own = {"name": "reinforce_plus_plus", "minus_baseline": False, "kl_credit": "reward_to_go"}
    found = {"GAE": rewards.compared_by_critic(by_critic(value), value)}
    for kind in ("k1", "k2", "k3"):
        loss = kl_in_reward(kind)
        found[f"GAE, KL {kind} in reward"] = rewards.compared_by_critic(by_critic(value, kind), value, loss)
        found[f"REINFORCE++, KL {kind} in reward"] = rewards.compared(
            advantages_of("reinforce_plus_plus", kind), factor=of_n, loss=loss, adv_estimator=own
        )
    return found


def compared_advantages(rewards: RandomRewards) -> dict[str, AdvantageDifference]:
    """verl whitens with the variance of n - 1 (Bessel's correction), we as NeMo-RL with that of n."""
    n = float(rewards.mask.sum())
    of_n = (n / (n - 1)) ** 0.5
    own: dict[str, Any] = {"use_leave_one_out_baseline": False}
    plain: dict[str, Any] = {"normalize_rewards": False}
    unscaled: dict[str, Any] = {"norm_adv_by_std_in_grpo": False}
    plus_plus = {"name": "reinforce_plus_plus"}
    return {
        "GRPO": rewards.compared(advantages_of("grpo"), **own),
        "Dr. GRPO": rewards.compared(advantages_of("grpo", **unscaled), **own, **plain),
        "RLOO": rewards.compared(advantages_of("rloo"), **plain),
        "REINFORCE++": rewards.compared(
            advantages_of("reinforce_plus_plus"), factor=of_n, adv_estimator={**plus_plus, "minus_baseline": False}
        ),
        "REINFORCE++-baseline": rewards.compared(
            advantages_of("reinforce_plus_plus_baseline"), factor=of_n, adv_estimator=plus_plus
        ),
        "pass@k": rewards.compared(advantages_of("grpo_passk"), adv_estimator={"name": "grpo_passk"}),
        "pass@k, not normalised": rewards.compared(
            advantages_of("grpo_passk", **unscaled), **plain, adv_estimator={"name": "grpo_passk"}
        ),
        **kl_in_rewards(rewards, of_n),
    }


def main(file: Path) -> None:
    torch.set_num_threads(1)
    file.write_text(
        json.dumps({"losses": losses(RandomBatch.draw()), "advantages": compared_advantages(RandomRewards())})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
