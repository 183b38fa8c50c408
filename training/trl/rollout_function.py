"""A rollout function for TRL's `GRPOTrainer`, and the reward function that belongs to it.

Law     a rollout with nothing to train on has the reward None, which TRL makes NaN: it enters no baseline, its
        advantage is 0, and a mask of zeros keeps it out of the loss. The others' ids, masks and log-probs are their one
        sample.
Order   one completion for each prompt that TRL gives. TRL repeats a prompt for each member of its group: members are
        run together, groups at the same time as each other.
Errors  ConfigError for a `sample_mode` that gives several samples; KeyError for a prompt that `dataset_rows` did not
        make.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import groupby
from typing import Any, NamedTuple

from paddock.errors import ConfigError
from paddock.rollouts import RolloutClient, RolloutGroup, TrainingRollout
from paddock.training.trl.colocated import ColocatedEngine
from paddock.training.trl.rows import row_number
from paddock.types import JsonObject

log = logging.getLogger(__name__)
REWARD_KEY = "paddock_reward"
SINGLE_SAMPLE_MODES = ("whole", "chain")
RolloutFunction = Callable[[list[Any], Any], dict[str, list[Any]]]


class RowGroup(NamedTuple):
    """Prompts beside each other that are members of one group."""

    row: int
    size: int


def environment_reward(completions: Sequence[Any], paddock_reward: Sequence[float | None], **_: Any) -> list[Any]:
    """The rewards that the environments gave: for `GRPOTrainer(reward_funcs=...)`."""
    assert len(completions) == len(paddock_reward)
    return list(paddock_reward)


def rollout_function(
    client: RolloutClient, rows: Sequence[JsonObject], *, engine: ColocatedEngine | None = None
) -> RolloutFunction:
    """A function for `GRPOTrainer(rollout_func=...)`. `rows`: those of `dataset_rows`, in the same order. `engine`: the
    client's, where it is the vLLM in the trainer."""
    if client.options.sample_mode not in SINGLE_SAMPLE_MODES:
        raise ConfigError(
            f"TRL's GRPOTrainer takes one sample of a rollout: set sample_mode to {' or '.join(SINGLE_SAMPLE_MODES)}, "
            f"not {client.options.sample_mode}",
            kind="config_value",
        )
    warned = False

    def roll_out(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        nonlocal warned
        if not warned and not trainer.use_vllm:
            log.warning(
                "TRL ignores the log-probs of rollouts without use_vllm: each batch is taken for on-policy, and "
                "nothing corrects for an engine that samples otherwise than the policy computes"
            )
        warned = True
        numbers = [row_number(prompt) for prompt in prompts]
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        client.announce_weights(int(trainer.state.global_step))
        with engine.running(trainer.vllm_generation) if engine is not None else nullcontext():
            groups = _run(client, rows, row_groups(numbers, size))
        members = [member for group in groups for member in group.members]
        return batch_fields(members, int(trainer.processing_class.pad_token_id))

    return roll_out


def row_groups(numbers: Sequence[int], size: int) -> list[RowGroup]:
    """The groups of prompts that stand in a batch, by their rows' numbers; of at most `size` members."""
    found = []
    for number, same in groupby(numbers):
        left = len(list(same))
        while left > 0:
            found.append(RowGroup(number, min(size, left)))
            left -= size
    return found


def batch_fields(members: Sequence[TrainingRollout], pad_id: int) -> dict[str, list[Any]]:
    """What a rollout function returns. `pad_id`: stands for a rollout that has no ids."""
    batch: dict[str, list[Any]] = {
        name: [] for name in ("prompt_ids", "completion_ids", "env_mask", "logprobs", REWARD_KEY)
    }
    for member in members:
        ids, mask, log_probs, start = [pad_id, pad_id], [0, 0], [0.0, 0.0], 1
        if member.samples:
            sample = member.samples[0].sample
            ids, mask, log_probs, start = sample.ids, sample.loss_mask, sample.log_probs, sample.prompt_length
        batch["prompt_ids"].append(ids[:start])
        batch["completion_ids"].append(ids[start:])
        batch["env_mask"].append(mask[start:])
        batch["logprobs"].append(log_probs[start:])
        batch[REWARD_KEY].append(member.reward if member.samples else None)
    return batch


def _run(client: RolloutClient, rows: Sequence[JsonObject], groups: Sequence[RowGroup]) -> list[RolloutGroup]:
    async def together() -> list[RolloutGroup]:
        return list(await asyncio.gather(*(client.run_group(rows[group.row], group.size) for group in groups)))

    # In a thread: a loop may run in the trainer's, as in a notebook.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, together()).result()
