"""The task in SkyRL's trainer, and SkyRL's losses: `python -m tests.training.same_rollouts.in_skyrl FOLDER`."""

import sys
from pathlib import Path
from typing import Any

import torch
from skyrl.backends.skyrl_train.utils import ppo_utils
from tests.training.same_rollouts.loss_batch import CLIP, WEIGHED, LossBatch
from tests.training.same_rollouts.task import MAX_TOKENS, NUMBERS, PARSERS, SIZE, SameTask, rows, write_given
from tests.training.skyrl.drive import SkyRlPlace, SkyRlRun

from paddock.types import JsonObject


def skyrl_run(folder: Path, task: SameTask) -> SkyRlRun:
    words = [
        task.config,
        f"rollouts.out={task.out}",
        *(f"engine.{name}={value}" for name, value in PARSERS.items()),
    ]
    return SkyRlRun(
        folder,
        SkyRlPlace(task.url, Path(task.model), rows(), words),
        f"generator.n_samples_per_prompt={SIZE}",
        f"generator.sampling_params.max_generate_length={MAX_TOKENS}",
        "generator.sampling_params.temperature=1.0",
        "generator.step_wise_trajectories=true",
    )


def given_samples(run: SkyRlRun) -> list[JsonObject]:
    """What SkyRL's trainer makes its batch of."""
    output = run.batch(run.trainer())["output"]
    run.experiment.close()
    samples = zip(
        output["trajectory_ids"],
        output["prompt_token_ids"],
        output["response_ids"],
        output["loss_masks"],
        output["rollout_logprobs"],
        output["rewards"],
        strict=True,
    )
    return [
        {
            "row": NUMBERS[int(member.instance_id)],
            "ids": prompt + response,
            "loss_mask": [0] * len(prompt) + mask,
            "log_probs": [0.0] * len(prompt) + log_probs,
            "reward": reward,
        }
        for member, prompt, response, mask, log_probs, reward in samples
    ]


def losses(cfg: Any, batch: LossBatch) -> JsonObject:
    """SkyRL's losses beside ours."""
    algorithm = cfg.trainer.algorithm
    algorithm.eps_clip_low, algorithm.eps_clip_high = CLIP["ratio_clip_min"], CLIP["ratio_clip_max"]
    algorithm.clip_ratio_c = 3.0
    algorithm.cispo.cispo_eps_clip_low, algorithm.cispo.cispo_eps_clip_high = 0.2, 0.28
    algorithm.off_policy_correction.token_tis_ratio_clip_high = 2.0

    def theirs(kind: str, reduction: str = "token_mean", tis: str | None = None, anchor: str = "old") -> Any:
        def loss(given: LossBatch) -> torch.Tensor:
            algorithm.policy_loss_type = kind
            algorithm.off_policy_correction.tis_ratio_type = tis
            algorithm.cispo.cispo_anchor = anchor
            scaled = ppo_utils.apply_loss_reduction_to_advantages_minibatch(
                given.advantages, given.mask, reduction, len(given.mask), given.mask.shape[1]
            )
            found, _ = ppo_utils.PolicyLossRegistry.get(kind)(
                given.now, given.old, scaled, config=algorithm, loss_mask=given.mask, rollout_logprobs=given.engine
            )
            return found

        return loss

    plain = {**CLIP, "use_importance_sampling_correction": False}
    tis = {**CLIP, "truncated_importance_sampling_type": "tis", "truncated_importance_sampling_ratio": 2.0}
    return {
        "regular token_mean": batch.compared(theirs("regular"), **plain),
        "regular sequence_mean": batch.compared(theirs("regular", "sequence_mean"), **plain, token_level_loss=False),
        "regular tis_ratio_type token": batch.compared(theirs("regular", tis="token"), **tis),
        "dual_clip": batch.compared(theirs("dual_clip"), **plain, ratio_clip_c=3.0),
        "gspo": batch.compared(
            theirs("gspo", "sequence_mean"), **plain, sequence_level_importance_ratios=True, token_level_loss=False
        ),
        "rollout_is": batch.compared(
            theirs("rollout_is"), **{**WEIGHED, "truncated_importance_sampling_type": "icepop"}
        ),
        "rollout_is clipped": batch.compared(theirs("rollout_is"), **CLIP, ratio_against="generation"),
        "cispo cispo_anchor rollout": batch.compared(theirs("cispo", anchor="rollout"), **WEIGHED),
        "cispo": batch.compared(theirs("cispo"), **plain, use_cispo=True),
    }


def main(folder: Path) -> None:
    run = skyrl_run(folder, SameTask.read(folder))
    samples = given_samples(run)
    write_given(folder, samples, losses=losses(run.cfg, LossBatch.of(samples)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
