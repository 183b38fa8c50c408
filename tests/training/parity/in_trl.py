"""TRL's losses beside ours, over random numbers: `python -m tests.training.parity.in_trl FILE`, written as JSON."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from tests.training.parity.random_batch import CLIP, PLAIN, ROWS, LossDifference, RandomBatch
from trl import GRPOConfig, GRPOTrainer

from paddock.testing.templates import TEMPLATES
from paddock.testing.tiny_qwen3 import make_model, make_tokenizer, save

LONGEST = 100
OWN = {
    "epsilon_high": CLIP["ratio_clip_max"],
    "importance_sampling_level": "token",
    "off_policy_mask_threshold": None,
    "_entropy_bonus_enabled": False,
}
"""Attributes of the trainer where a loss names no others."""


class GivenTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer, whose model gives the log-probs and entropies of a batch of ours."""

    given: RandomBatch

    def _get_per_token_logps_and_entropies(self, *_args: Any, **_keys: Any) -> Any:
        return self.given.now, self.given.entropies, None


def make_trainer(folder: Path) -> GivenTrainer:
    tokenizer = make_tokenizer(["some words"], 300)
    model = make_model(tokenizer, 0)
    save(model, tokenizer, TEMPLATES["chatml"].source, folder / "model")
    trainer = GivenTrainer(
        model=str(folder / "model"),
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            use_cpu=True,
            bf16=False,
            report_to=[],
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=LONGEST,
            epsilon=CLIP["ratio_clip_min"],
            epsilon_high=CLIP["ratio_clip_max"],
            beta=0.3,
            use_bias_correction_kl=False,
        ),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([{"prompt": "some words"}]),
        reward_funcs=[lambda **_: [0.0]],
    )
    trainer.model.eval()  # the loss of one whole batch: not divided by accumulation steps
    return trainer


class TrlLosses:
    """TRL's losses, by the attributes that its trainer makes of its config."""

    def __init__(self, trainer: GivenTrainer) -> None:
        self._trainer = trainer

    def __call__(self, kind: str, *, beta: float = 0.0, importance: str | None = None, **keys: Any) -> Any:
        trainer = self._trainer

        def loss(given: RandomBatch) -> torch.Tensor:
            trainer.given, trainer.loss_type, trainer.beta = given, kind, beta
            own = {**OWN, **keys}
            for name, value in own.items():
                setattr(trainer, name, value)
            ids = torch.zeros_like(given.mask, dtype=torch.long)
            inputs = {
                "prompt_ids": ids[:, :1],
                "prompt_mask": torch.ones_like(ids[:, :1]),
                "completion_ids": ids,
                "completion_mask": given.mask,
                "advantages": given.advantages,
                "old_per_token_logps": given.old,
                "ref_per_token_logps": given.reference,
                "sampling_per_token_logps": given.engine,
                "num_items_in_batch": given.mask.sum(),
            }
            if importance is not None:
                inputs["importance_sampling_ratio"] = _weights(given, importance)
            trainer.use_vllm = trainer.vllm_importance_sampling_correction = importance is not None
            found: torch.Tensor = trainer._compute_loss(trainer.model, inputs)
            return found

        return loss


def _weights(given: RandomBatch, mode: str) -> torch.Tensor:
    """What TRL's trainer computes beside its rollouts, from its documentation: bounds 0.5 and 2.0."""
    difference = (given.old - given.engine) * given.mask
    ratio = (difference.sum(-1, keepdim=True) if mode.startswith("sequence") else difference).exp()
    if mode.endswith("truncate"):
        return ratio.clamp(0.5, 2.0)
    return ratio.masked_fill((ratio < 0.5) | (ratio > 2.0), 0.0)


def losses(batch: RandomBatch, theirs: TrlLosses) -> dict[str, LossDifference]:
    by_row = {**PLAIN, **ROWS, "sequence_level_importance_ratios": True}
    no_floor = {**PLAIN, "ratio_clip_min": 1.0, "use_cispo": True}
    kl = {**PLAIN, "reference_policy_kl_penalty": 0.3, "reference_policy_kl_gradient": "plain"}
    bounds = {"truncated_importance_sampling_ratio": 2.0, "truncated_importance_sampling_ratio_min": 0.5}
    off_policy = {"statistic": "seq_mean_k1", "high": 1.05, "low": 0.0, "negative_only": True}
    same = batch.on_policy()
    found = {
        "GRPO": batch.compared(theirs("grpo"), **PLAIN, **ROWS),
        "GRPO with KL": batch.compared(theirs("grpo", beta=0.3), **kl, **ROWS),
        "DAPO": batch.compared(theirs("dapo"), **PLAIN),
        "BNPO": batch.compared(theirs("bnpo"), **PLAIN),
        "Dr. GRPO": batch.compared(theirs("dr_grpo"), **PLAIN, **ROWS, constant_length_tokens=LONGEST),
        "GSPO": batch.compared(theirs("grpo", importance_sampling_level="sequence"), **by_row),
        "CISPO": batch.compared(theirs("cispo", epsilon_high=1.28), **no_floor),
        "SAPO": batch.compared(theirs("sapo"), **PLAIN, **ROWS, sapo={}),
        "entropy bonus": batch.compared(
            theirs("dapo", _entropy_bonus_enabled=True, entropy_coef=0.1), **PLAIN, entropy_coef=0.1
        ),
        "off-policy sequence mask": same.compared(
            theirs("dapo", off_policy_mask_threshold=0.048790164169432),
            **PLAIN, rejections=[off_policy],
        ),
    }  # fmt: skip
    for mode in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"):
        level, kind = mode.split("_")
        found[mode] = batch.compared(
            theirs("dapo", importance=mode),
            **CLIP, **bounds,
            importance_sampling_level=level,
            truncated_importance_sampling_type={"truncate": "tis", "mask": "icepop"}[kind],
        )  # fmt: skip
    return found


def main(file: Path) -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        theirs = TrlLosses(make_trainer(Path(folder)))
        file.write_text(json.dumps({"losses": losses(RandomBatch.draw(), theirs)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
