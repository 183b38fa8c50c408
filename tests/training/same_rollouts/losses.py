"""The losses of libraries that are in no package index, over samples: `losses.py LIBRARY FOLDER CHECKOUT...`.

Reads   `given.json` in the folder, and writes `losses.json`.
Paths   those of a checkout and of what it needs come last: where both have a package, the interpreter's own counts.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.training.same_rollouts.loss_batch import CLIP, WEIGHED, LossBatch

from paddock.types import JsonObject

PLAIN = {**CLIP, "use_importance_sampling_correction": False}
BY_ROW = {**PLAIN, "sequence_level_importance_ratios": True, "token_level_loss": False}
TIS = {
    **CLIP,
    "use_importance_sampling_correction": True,
    "truncated_importance_sampling_type": "tis",
    "truncated_importance_sampling_ratio": 1.5,
    "truncated_importance_sampling_ratio_min": 0.7,
}


def nemo_rl(batch: LossBatch) -> JsonObject:
    """NeMo-RL's `ClippedPGLossFn`, with the keys that ours has."""
    from nemo_rl.algorithms.loss.loss_functions import ClippedPGLossConfig, ClippedPGLossFn
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict

    def theirs(keys: JsonObject) -> Callable[[LossBatch], torch.Tensor]:
        def loss(given: LossBatch) -> torch.Tensor:
            data = BatchedDataDict(
                {
                    "token_mask": given.mask,
                    "sample_mask": torch.ones(len(given.mask), dtype=given.mask.dtype),
                    "advantages": given.advantages,
                    "prev_logprobs": given.old,
                    "generation_logprobs": given.engine,
                    "reference_policy_logprobs": given.engine,
                }
            )
            config = ClippedPGLossConfig(**{"reference_policy_kl_penalty": 0.0, **keys})
            totals = given.totals
            found, _ = ClippedPGLossFn(config)(
                given.now[:, 1:], data, torch.tensor(totals.rows), torch.tensor(totals.tokens)
            )
            return found

        return loss

    cases: dict[str, JsonObject] = {
        "token_level_loss": PLAIN,
        "sequence_level_loss": {**PLAIN, "token_level_loss": False},
        "ratio_clip_c": {**PLAIN, "ratio_clip_c": 3.0},
        "sequence_level_importance_ratios": BY_ROW,
        "tis": TIS,
        "icepop": {**TIS, "truncated_importance_sampling_type": "icepop"},
        "seq-mask-tis": {**TIS, "truncated_importance_sampling_type": "seq-mask-tis"},
        "force_on_policy_ratio": {**PLAIN, "force_on_policy_ratio": True},
        "disable_ppo_ratio": {**PLAIN, "disable_ppo_ratio": True},
        "reference_policy_kl_penalty": {**PLAIN, "reference_policy_kl_penalty": 0.1},
        "use_cispo": {**PLAIN, "use_cispo": True},
    }
    return {name: batch.compared(theirs(keys), **keys) for name, keys in cases.items()}


def slime(batch: LossBatch) -> JsonObject:
    """slime's `loss_function`, with Megatron's own parallel state of one process; the model's logits are made up."""
    import torch.distributed as dist
    from megatron.core import mpu

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mpu.initialize_model_parallel()
    from slime.backends.megatron_utils.loss import loss_function

    def theirs(**keys: Any) -> Callable[[LossBatch], torch.Tensor]:
        def loss(given: LossBatch) -> torch.Tensor:
            args = slime_arguments(**keys)
            fields = slime_fields(given)
            found, count, _ = loss_function(args, fields, 1, len(given.mask), slime_logits(given))
            return found / count if args.calculate_per_token_loss else found

        return loss

    rows = {"token_level_loss": False}
    engine = {**CLIP, "ratio_against": "generation"}
    return {
        "grpo": batch.compared(theirs(), **PLAIN, **rows),
        "calculate_per_token_loss": batch.compared(theirs(calculate_per_token_loss=True), **PLAIN),
        "eps_clip_c": batch.compared(theirs(eps_clip_c=3.0), **PLAIN, **rows, ratio_clip_c=3.0),
        "gspo": batch.compared(theirs(advantage_estimator="gspo"), **BY_ROW),
        "use_tis": batch.compared(theirs(use_tis=True), **TIS, **rows),
        "use_tis icepop": batch.compared(
            theirs(use_tis=True, custom_tis_function_path="slime.backends.megatron_utils.loss.icepop_function"),
            **{**TIS, **rows, "truncated_importance_sampling_type": "icepop"},
        ),
        "use_rollout_logprobs": batch.compared(theirs(use_rollout_logprobs=True), **engine, **rows),
        "cispo use_rollout_logprobs": batch.compared(
            theirs(advantage_estimator="cispo", use_rollout_logprobs=True), **WEIGHED, **rows
        ),
        "cispo": batch.compared(theirs(advantage_estimator="cispo"), **PLAIN, **rows),
    }


def slime_arguments(**keys: Any) -> Namespace:
    """slime's arguments as far as its loss asks for them."""
    given: dict[str, Any] = {
        "loss_type": "policy_loss",
        "advantage_estimator": "grpo",
        "eps_clip": CLIP["ratio_clip_min"],
        "eps_clip_high": CLIP["ratio_clip_max"],
        "eps_clip_c": None,
        "calculate_per_token_loss": False,
        "use_rollout_logprobs": False,
        "use_tis": False,
        "tis_clip_low": TIS["truncated_importance_sampling_ratio_min"],
        "tis_clip": TIS["truncated_importance_sampling_ratio"],
        "custom_tis_function_path": None,
        "get_mismatch_metrics": False,
        "use_opsm": False,
        "use_kl_loss": False,
        "entropy_coef": 0.0,
        "rollout_temperature": 1.0,
        "rollout_top_p": 1.0,
        "log_probs_chunk_size": -1,
        "allgather_cp": False,
        "recompute_loss_function": False,
    }
    return Namespace(**{**given, **keys})


def slime_fields(batch: LossBatch) -> JsonObject:
    """A micro-batch of slime's: whole sequences of which all but the first token is the response."""
    width = batch.mask.shape[1]

    def responses(columns: torch.Tensor) -> list[torch.Tensor]:
        return [row[1:].float() for row in columns.detach()]

    return {
        "unconcat_tokens": [torch.zeros(width, dtype=torch.long) for _ in batch.mask],
        "total_lengths": [width] * len(batch.mask),
        "response_lengths": [width - 1] * len(batch.mask),
        "loss_masks": responses(batch.mask),
        "rollout_mask_sums": [row.sum() for row in batch.mask],
        "advantages": responses(batch.advantages),
        "log_probs": responses(batch.old),
        "rollout_log_probs": responses(batch.engine),
    }


def slime_logits(batch: LossBatch) -> torch.Tensor:
    """`[1, tokens, 2]`: of a vocabulary of two, of which the first is each next token, with its log-prob."""
    following = torch.cat([batch.now[:, 1:], torch.full_like(batch.now[:, :1], -1.0)], dim=1).float()
    other = torch.log(-torch.expm1(following))
    return torch.stack([following, other], dim=-1).reshape(1, -1, 2)


def prime_rl(batch: LossBatch) -> JsonObject:
    """prime-rl's `compute_loss`."""
    from prime_rl.configs.trainer import DefaultLossConfig, IPOLossConfig
    from prime_rl.trainer.rl.loss import compute_loss, setup_rl_loss_fn

    def theirs(config: Any) -> Callable[[LossBatch], torch.Tensor]:
        def loss(given: LossBatch) -> torch.Tensor:
            found, _ = compute_loss(
                trainer_logprobs=list(given.now),
                inference_logprobs=list(given.engine),
                ref_logprobs=None,
                advantages=list(given.advantages),
                loss_mask=list(given.mask.bool()),
                rl_weights=None,
                ce_weights=None,
                ref_kl_weights=None,
                rl_loss_fn=setup_rl_loss_fn(config),
                rl_scale=given.totals.tokens,
                ce_scale=1,
                ref_kl_scale=1,
            )
            return found

        return loss

    unclipped = {"ratio_clip_min": 0.999999, "ratio_clip_max": 1e6, "ratio_against": "generation"}
    free = DefaultLossConfig(dppo_mask_low=1.0, dppo_mask_high=1.0, kl_tau=0.0)
    return {
        "default without mask and kl": batch.compared(theirs(free), **unclipped),
        "ipo without mask and kl": batch.compared(theirs(IPOLossConfig(ipo_threshold=1.0, kl_tau=0.0)), **unclipped),
        "default": batch.compared(theirs(DefaultLossConfig()), **unclipped),
        "ipo": batch.compared(theirs(IPOLossConfig()), **unclipped),
    }


LIBRARIES = {"nemo_rl": nemo_rl, "slime": slime, "prime_rl": prime_rl}


def main(library: str, folder: Path, *paths: str) -> None:
    sys.path += paths
    torch.set_num_threads(1)
    batch = LossBatch.of(json.loads((folder / "given.json").read_text())["samples"])
    (folder / "losses.json").write_text(json.dumps(LIBRARIES[library](batch)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
