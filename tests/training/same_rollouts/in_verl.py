"""The task in verl's agent loop worker, and verl's losses: `python -m tests.training.same_rollouts.in_verl FOLDER`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from tests.training.same_rollouts.loss_batch import CLIP, WEIGHED, LossBatch
from tests.training.same_rollouts.task import (
    NUMBERS,
    PARSERS,
    SIZE,
    VERSION,
    EndpointSampler,
    SameTask,
    rows,
    write_given,
)
from tests.training.verl.library import World, batch_of, plain_rows
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from paddock.training.verl.clients import close_clients
from paddock.types import JsonObject

RESPONSE_LENGTH = 8000
DUAL_CLIP = 3.0


class VerlEndpointClient(LLMServerClient):  # type: ignore[misc]
    """verl's client, which asks the endpoint of the run in place of verl's servers."""

    def __init__(self, config: Any, url: str) -> None:
        super().__init__(config)
        self._sample = EndpointSampler(url)

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_others: Any
    ) -> TokenOutput:
        params = {key: value for key, value in sampling_params.items() if key != "logprobs"}
        answer = await self._sample(prompt_ids, params, rollout=request_id)
        return TokenOutput(
            token_ids=list(answer.ids),
            log_probs=list(answer.log_probs),
            stop_reason="completed",
            extra_fields={"global_steps": VERSION},
        )


def verl_world(folder: Path, task: SameTask) -> World:
    return World(
        folder,
        f"actor_rollout_ref.actor.clip_ratio_low={CLIP['ratio_clip_min']}",
        f"actor_rollout_ref.actor.clip_ratio_high={CLIP['ratio_clip_max']}",
        f"actor_rollout_ref.actor.clip_ratio_c={DUAL_CLIP}",
        n=SIZE,
        response_length=RESPONSE_LENGTH,
        prompt_length=RESPONSE_LENGTH,
        model=Path(task.model),
        environment=task.config,
        engine=PARSERS,
        out=Path(task.out),
    )


def given_samples(world: World, url: str) -> list[JsonObject]:
    """What verl's batch holds."""

    async def generate() -> Any:
        try:
            return await AgentLoopWorker(world.config, VerlEndpointClient(world.config, url)).generate_sequences(
                batch_of(rows(), SIZE)
            )
        finally:
            await close_clients()

    return [
        {
            "row": NUMBERS[row["group"]],
            "ids": row["prompt"] + row["response"],
            "loss_mask": [0] * len(row["prompt"]) + row["mask"],
            "log_probs": [0.0] * len(row["prompt"]) + row["log_probs"],
            "reward": row["reward"],
            "versions": row["steps"],
        }
        for row in plain_rows(asyncio.run(generate()))
    ]


def losses(world: World, batch: LossBatch) -> JsonObject:
    """verl's losses beside ours."""
    actor = world.config.actor_rollout_ref.actor
    config = omega_conf_to_dataclass(actor)
    keeping = omega_conf_to_dataclass(OmegaConf.merge(actor, {"policy_loss": {"clip_cov_lb": 1e9, "clip_cov_ub": 1e9}}))

    def theirs(
        mode: str, aggregation: str = "token-mean", old: str = "old", weights: Any = None, config: Any = config
    ) -> Any:
        def loss(given: LossBatch) -> torch.Tensor:
            found, _ = get_policy_loss_fn(mode)(
                old_log_prob=getattr(given, old),
                log_prob=given.now,
                advantages=given.advantages,
                response_mask=given.mask,
                loss_agg_mode=aggregation,
                config=config,
                rollout_is_weights=weights,
            )
            return found

        return loss

    corrected, _, _ = compute_rollout_correction_and_rejection_mask(
        old_log_prob=batch.old,
        rollout_log_prob=batch.engine,
        response_mask=batch.mask,
        rollout_is="token",
        rollout_is_threshold=2.0,
    )
    weights = corrected.batch["rollout_is_weights"]
    plain = {**CLIP, "use_importance_sampling_correction": False}
    dual = {**plain, "ratio_clip_c": DUAL_CLIP}
    tis = {**CLIP, "ratio_clip_c": DUAL_CLIP, "truncated_importance_sampling_ratio": 2.0}
    by_row = {**plain, "sequence_level_importance_ratios": True, "token_level_loss": False}
    reinforce = {"use_importance_sampling_correction": False, "disable_ppo_ratio": True}
    return {
        "vanilla token-mean": batch.compared(theirs("vanilla"), **dual),
        "vanilla seq-mean-token-mean": batch.compared(
            theirs("vanilla", "seq-mean-token-mean"), **dual, token_level_loss=False
        ),
        "vanilla rollout_is": batch.compared(
            theirs("vanilla", weights=weights), **tis, truncated_importance_sampling_type="tis"
        ),
        "vanilla old_log_probs of the engine": batch.compared(
            theirs("vanilla", old="engine"), **CLIP, ratio_clip_c=DUAL_CLIP, ratio_against="generation"
        ),
        "gspo": batch.compared(theirs("gspo", "seq-mean-token-mean"), **by_row),
        "gpg": batch.compared(theirs("gpg"), **reinforce),
        "geo_mean": batch.compared(theirs("geo_mean"), **by_row),
        "clip_cov": batch.compared(theirs("clip_cov"), **plain),
        "clip_cov that drops nothing": batch.compared(theirs("clip_cov", config=keeping), **plain),
        "kl_cov": batch.compared(theirs("kl_cov"), **plain),
        "cispo": batch.compared(theirs("cispo"), **plain, use_cispo=True),
        "cispo old_log_probs of the engine": batch.compared(theirs("cispo", old="engine"), **WEIGHED),
    }


def main(folder: Path) -> None:
    task = SameTask.read(folder)
    world = verl_world(folder, task)
    samples = given_samples(world, task.url)
    write_given(folder, samples, losses=losses(world, LossBatch.of(samples)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
