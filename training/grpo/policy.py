"""The policy on torch: a model of Transformers, in one process or sharded over several (FSDP2).

Law     that of `policy_thread`.
Turns   with an engine on the same GPU (`generation.colocated`): `train` lets the engine sleep and moves the policy
        there; `send` wakes the engine for its weights, hands them over, and moves the policy to memory of the CPU
        before the engine takes its cache. Where the GPU has no room for both models' weights, the policy goes before
        the engine wakes. Between `send` and `train` the GPU is the engine's. A `train` that fails leaves it asleep, as
        the run ends with it.
Errors  ConfigError for a model or a schedule that can't be made; what torch raises is not caught.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult, WeightsSource
from paddock.server.vllm.weights.sender import WeightSender
from paddock.training.core.records import Batch
from paddock.training.grpo.language_model import checkpoint_stream
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.policy_settings import SINGLE_RANK, PolicySettings, RankInfo
from paddock.training.grpo.policy_state import export_model, load_state, save_state
from paddock.training.grpo.policy_thread import ThreadedPolicy
from paddock.training.grpo.roles import TokenNll, TrainResult
from paddock.training.grpo.sharding import DTYPES, ShardGroup, whole_weights
from paddock.training.grpo.training_step import token_nll
from paddock.training.grpo.weight_stream import WeightStream


async def make_policy(settings: PolicySettings, rank_info: RankInfo = SINGLE_RANK) -> "TorchPolicy":
    """Make the policy in this process; of several, each waits for the others."""
    return await asyncio.to_thread(TorchPolicy, settings, rank_info)


ENGINE_FACTOR = 1.25
"""Bytes that an engine takes when it wakes up for its weights, for each of theirs."""


class _StoredPart(NamedTuple):
    folder: Path
    model: Any
    optimizer: Any
    scheduler: Any | None


class TorchPolicy(ThreadedPolicy):
    """The role `roles.Policy`; its model is loaded when it is made."""

    def __init__(
        self, settings: PolicySettings, rank_info: RankInfo = SINGLE_RANK, *, sender: WeightSender | None = None
    ) -> None:
        super().__init__(settings, rank_info, sender)
        home = torch.device("cpu") if self._colocated else None
        self._shard_group = ShardGroup(rank_info, self._device, home, offload=settings.policy.dtensor_cfg.cpu_offload)
        self._learner = self._make_in_thread(self._make)

    async def train(self, batch: Batch) -> TrainResult:
        return await self._run(lambda: self._on_device().train(batch))

    async def token_nll(self, batch: Batch) -> TokenNll:
        return await self._run(lambda: token_nll(self._on_device(), batch, self._settings))

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        return await self._run(lambda: self._send(version, replicas, clear_cache=clear_cache))

    async def save(self, folder: Path, *, background: bool = False) -> None:
        def save_all() -> None:
            for part in self._parts(folder):
                stored = (part.model, part.optimizer, part.scheduler)
                save_state(part.folder, self._shard_group, *stored, self._writer, background=background)

        await self._run(save_all)

    async def load(self, folder: Path) -> None:
        def load_all() -> None:
            for part in self._parts(folder):
                load_state(part.folder, self._shard_group, part.model, part.optimizer, part.scheduler)

        await self._run(load_all)

    async def export(self, folder: Path) -> None:
        await self._run(
            lambda: export_model(folder, self._shard_group, self._learner.model.model, self._settings.policy)
        )

    def _parts(self, folder: Path) -> Iterator[_StoredPart]:
        """What is stored, and where. Random states are those of the last."""
        learner, critic = self._learner, self._learner.critic
        if critic is not None:
            yield _StoredPart(folder / "critic", critic.model.module, critic.optimizer, critic.scheduler)
        yield _StoredPart(folder, learner.model.model, learner.optimizer, learner.scheduler)

    def _make(self) -> Learner:
        self._shard_group.join()
        return Learner(self._settings, self._shard_group)

    def _on_device(self) -> Learner:
        """The learner, where it computes."""
        if self._colocated:
            self._sender.sleep_engines()
            self._learner.move(self._device)
        return self._learner

    def _send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        dtype = DTYPES[self._settings.policy.precision]
        model = self._learner.model.model

        def each_weight() -> Iterator[tuple[str, torch.Tensor]]:
            return checkpoint_stream(model, whole_weights(model, self._shard_group, dtype))

        if not self._colocated:
            stream = WeightStream(each_weight, self._shard_group.share)
            return self._send_stream(stream, version, replicas, clear_cache=clear_cache)
        home = self._shard_group.home
        source: WeightsSource = each_weight
        self._learner.move_rest(home)
        if not _has_room(self._device, self._bytes_beside(dtype)):
            weights = {name: value.to("cpu") for name, value in each_weight()}
            self._learner.move(home)
            source = weights.items
        return self._sender.send(
            version, source, replicas, clear_cache=clear_cache, leave=lambda: self._learner.move(home)
        )

    def _bytes_beside(self, dtype: torch.dtype) -> int:
        """What the engine takes beside the policy's weights, and both for buckets, while it gets its own."""
        values: list[int] = [value.numel() for value in self._learner.model.model.parameters()]
        bucket: int = max(self._settings.weights.bucket_bytes, max(values) * dtype.itemsize)
        engine = int(ENGINE_FACTOR * sum(values) * dtype.itemsize)
        return engine + 4 * bucket

    def _end(self) -> None:
        super()._end()
        self._shard_group.leave()


def _has_room(device: torch.device, n_bytes: int) -> bool:
    """Whether the GPU has so much free memory; one CPU's is not counted."""
    if device.type != "cuda":
        return True
    torch.cuda.empty_cache()
    return bool(torch.cuda.mem_get_info(device)[0] >= n_bytes)
