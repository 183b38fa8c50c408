"""The policy on Megatron-core: one process, or several that hold the weights together by the layout of the settings.

Law     that of `policy_thread`, in whose thread the set-up hook is called before Megatron-core is imported.
Errors  ConfigError for a hook, a model or a layout that can't be; what Megatron-core raises is not caught.
"""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.errors import ConfigError
from paddock.server.vllm.weights.replicas import ReplicaInfo, SendResult
from paddock.server.vllm.weights.sender import WeightSender
from paddock.training.core.records import Batch
from paddock.training.grpo.policy_settings import SINGLE_RANK, PolicySettings, RankInfo
from paddock.training.grpo.policy_thread import ThreadedPolicy
from paddock.training.grpo.roles import TokenNll, TrainResult
from paddock.training.grpo.training_step import token_nll
from paddock.training.grpo.weight_stream import WeightStream

if TYPE_CHECKING:
    from paddock.training.grpo.megatron.learner import MegatronLearner
    from paddock.training.grpo.megatron.ranks import Ranks


async def make_policy(settings: PolicySettings, rank_info: RankInfo = SINGLE_RANK) -> "MegatronPolicy":
    """Make the policy in this process; of several, each waits for the others."""
    return await asyncio.to_thread(MegatronPolicy, settings, rank_info)


class _RankState(NamedTuple):
    ranks: "Ranks"
    learner: "MegatronLearner"


class MegatronPolicy(ThreadedPolicy):
    """The role `roles.Policy`; its model is loaded when it is made."""

    def __init__(
        self, settings: PolicySettings, rank_info: RankInfo = SINGLE_RANK, *, sender: WeightSender | None = None
    ) -> None:
        super().__init__(settings, rank_info, sender)
        self._rank_info = rank_info
        self._ranks, self._learner = self._make_in_thread(self._make)

    async def train(self, batch: Batch) -> TrainResult:
        return await self._run(lambda: self._learner.train(batch))

    async def token_nll(self, batch: Batch) -> TokenNll:
        return await self._run(lambda: token_nll(self._learner, batch, self._settings))

    async def send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        return await self._run(lambda: self._send(version, replicas, clear_cache=clear_cache))

    async def save(self, folder: Path, *, background: bool = False) -> None:
        from paddock.training.grpo.megatron.policy_state import save_state

        writer = self._writer
        await self._run(lambda: save_state(folder, self._ranks, self._learner, writer, background=background))

    async def load(self, folder: Path) -> None:
        from paddock.training.grpo.megatron.policy_state import load_state

        await self._run(lambda: load_state(folder, self._learner))

    async def export(self, folder: Path) -> None:
        from paddock.training.grpo.megatron.policy_state import export_model

        await self._run(lambda: export_model(folder, self._ranks, self._learner, self._settings.policy))

    def _make(self) -> _RankState:
        config = self._settings.policy.megatron_cfg
        if config.setup_hook is not None:
            _call_hook(config.setup_hook)
        # Whatever the hook did is done before they import Megatron-core.
        from paddock.training.grpo.megatron.learner import MegatronLearner
        from paddock.training.grpo.megatron.ranks import Ranks

        ranks = Ranks(config, self._rank_info, self._device, self._settings.grpo.seed)
        return _RankState(ranks, MegatronLearner(self._settings, ranks))

    def _send(self, version: int, replicas: list[ReplicaInfo], *, clear_cache: bool) -> SendResult:
        from paddock.training.grpo.megatron.weights import each_weight

        stream = WeightStream(lambda: each_weight(self._learner, self._ranks), self._ranks.share)
        return self._send_stream(stream, version, replicas, clear_cache=clear_cache)

    def _end(self) -> None:
        super()._end()
        self._ranks.leave()


def _call_hook(hook: str) -> None:
    module, _, name = hook.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"policy.megatron_cfg.setup_hook: {hook}: {error}", kind="setup_hook") from error
    function()
