"""Trains through a Tinker-style API: sample groups, `forward_backward`, `optim_step`, save, and sample from that.

Law     a step waits for its own rollouts, so all of them are of one version, the newest. A step without anything to
        learn from (all rewards alike, or all failed) changes no weights and is reported as such.
Errors  ConfigErrors, what the client raises, and what fails every rollout.
"""

import random
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import orjson
from tinker import AdamParams, ServiceClient

from paddock.config import load
from paddock.errors import ConfigError
from paddock.rollouts import RolloutClient, RolloutGroup, open_rollouts
from paddock.tokens import Vocabulary
from paddock.training.tinker.data import training_data
from paddock.training.tinker.engine import PolicySampler
from paddock.training.tinker.settings import TinkerSettings
from paddock.types import JsonObject


class TinkerStep(NamedTuple):
    """What one step was."""

    step: int
    """From 1."""
    reward: float | None
    """Mean of the members with a reward; None: there is none."""
    failed: int
    """Members without a reward, or without proven ids."""
    data: int
    """Samples that were learnt from."""
    rollout_s: float
    train_s: float
    """Seconds of forward, backward and the optimizer's step, and of saving the weights."""


async def train(settings: TinkerSettings) -> AsyncIterator[TinkerStep]:
    """Train; gives each step when it has ended."""
    rows = read_rows(settings)
    vocabulary = Vocabulary.load(settings.model_folder)
    service = ServiceClient(base_url=settings.base_url) if settings.base_url else ServiceClient()
    training = await service.create_lora_training_client_async(
        settings.base_model, rank=settings.lora_rank, seed=settings.seed
    )
    sampler = PolicySampler([*vocabulary.stop_ids, *settings.stop_token_ids], max_tokens=settings.max_tokens)
    await sampler.take(training, 0)
    client = open_rollouts(
        load(list(settings.config), settings.overrides, servers=()),
        engine=sampler,
        engine_settings={"tokenizer": str(settings.model_folder), **settings.engine},
        model_server=settings.model_server,
    )
    async with client:
        for step in range(1, settings.steps + 1):
            yield await _step(settings, client, training, sampler, list(islice(rows, settings.groups_per_step)), step)


async def _step(
    settings: TinkerSettings,
    client: RolloutClient,
    training: Any,
    sampler: PolicySampler,
    rows: Sequence[JsonObject],
    step: int,
) -> TinkerStep:
    started = time.monotonic()
    groups: list[RolloutGroup] = [group async for group in client.groups(rows, settings.group_size)]
    sampled = time.monotonic()
    data = training_data(groups, settings.grpo)
    if data:
        # Both are sent before either is waited for: the server need not be idle in between.
        backward = await training.forward_backward_async(data, settings.loss_fn)
        update = await training.optim_step_async(AdamParams(learning_rate=settings.learning_rate))
        await backward
        await update
        await sampler.take(training, step)
    members = [member for group in groups for member in group.members]
    rewards = [member.reward for member in members if member.reward is not None]
    return TinkerStep(
        step=step,
        reward=fmean(rewards) if rewards else None,
        failed=sum(member.mask is not None for member in members),
        data=len(data),
        rollout_s=round(sampled - started, 2),
        train_s=round(time.monotonic() - sampled, 2),
    )


def read_rows(settings: TinkerSettings) -> Iterator[JsonObject]:
    """The rows without end, sampled as the run says."""
    given = [orjson.loads(line) for line in Path(settings.rows).read_bytes().splitlines() if line.strip()]
    if not given:
        raise ConfigError(f"{settings.rows}: no rows", kind="rows_missing")
    chance = random.Random(settings.seed)

    def endless() -> Iterator[JsonObject]:
        while True:
            chance.shuffle(given)
            for row in given:
                params = row.get("responses_create_params") or {}
                yield {**row, "responses_create_params": {**params, "temperature": settings.temperature}}

    return endless()
