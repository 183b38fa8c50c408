"""The policy on Megatron-core: one process, or several that hold the weights together by the layout of the settings.

Law     as on torch: all work is done in one thread, a call after the other; every method is called on all processes
        with the same arguments at the same time, and rank 0 writes, sends and answers. The set-up hook is called in
        that thread before Megatron-core is imported.
Errors  ConfigError for a hook, a model or a layout that can't be; what Megatron-core raises is not caught.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from paddock.errors import ConfigError
from paddock.training.core.records import Batch
from paddock.training.grpo.policy_settings import ALONE, Place, PolicySettings
from paddock.training.grpo.roles import Replica, Sent, Trained
from paddock.training.grpo.sending import Sender, vllm_sender
from paddock.training.grpo.sharding import device_of

if TYPE_CHECKING:
    from paddock.training.grpo.megatron.learner import MegatronLearner
    from paddock.training.grpo.megatron.ranks import Ranks

T = TypeVar("T")


async def make_policy(settings: PolicySettings, place: Place = ALONE) -> "MegatronPolicy":
    """In this process; with several of them it waits for the others."""
    return await asyncio.to_thread(MegatronPolicy, settings, place)


class _Made(NamedTuple):
    ranks: "Ranks"
    learner: "MegatronLearner"


class MegatronPolicy:
    """`roles.Policy`. Made with the model loaded."""

    def __init__(self, settings: PolicySettings, place: Place = ALONE, *, sender: Sender | None = None) -> None:
        self._settings = settings
        self._place = place
        self._device = device_of(settings.policy.torch_cfg, place)
        self._sender = sender or vllm_sender(
            backend="nccl" if self._device.type == "cuda" else "gloo", device=self._device, address=place.master_address
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policy", initializer=self._prepare)
        self._ranks, self._learner = self._thread.submit(self._make).result()

    async def train(self, batch: Batch) -> Trained:
        return await self._run(lambda: self._learner.train(batch))

    async def send(self, version: int, replicas: list[Replica], *, clear_cache: bool) -> Sent:
        return await self._run(lambda: self._send(version, replicas, clear_cache=clear_cache))

    async def save(self, folder: Path) -> None:
        from paddock.training.grpo.megatron.saving import save_state

        await self._run(lambda: save_state(folder, self._ranks, self._learner))

    async def load(self, folder: Path) -> None:
        from paddock.training.grpo.megatron.saving import load_state

        await self._run(lambda: load_state(folder, self._learner))

    async def export(self, folder: Path) -> None:
        from paddock.training.grpo.megatron.saving import export_model

        await self._run(lambda: export_model(folder, self._ranks, self._learner, self._settings.policy))

    async def stop(self) -> None:
        await self._run(self._end)
        self._thread.shutdown(wait=False)

    def _prepare(self) -> None:
        threads = self._settings.policy.torch_cfg.threads
        if threads is not None and self._device.type == "cpu":
            torch.set_num_threads(threads)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def _make(self) -> _Made:
        config = self._settings.policy.megatron_cfg
        if config.setup_hook is not None:
            _called(config.setup_hook)
        # Whatever the hook did is done before they import Megatron-core.
        from paddock.training.grpo.megatron.learner import MegatronLearner
        from paddock.training.grpo.megatron.ranks import Ranks

        ranks = Ranks(config, self._place, self._device, self._settings.seed)
        return _Made(ranks, MegatronLearner(self._settings, ranks))

    def _send(self, version: int, replicas: list[Replica], *, clear_cache: bool) -> Sent:
        from paddock.training.grpo.megatron.weights import whole_weights

        weights = whole_weights(self._learner, self._ranks)
        if not self._ranks.first:
            return Sent(version, (), 0.0, 0.0, 0.0)
        return self._sender.send(version, weights, replicas, clear_cache=clear_cache)

    def _end(self) -> None:
        self._sender.close()
        self._ranks.leave()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _called(hook: str) -> None:
    module, _, name = hook.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"policy.megatron_cfg.setup_hook: {hook}: {error}", kind="setup_hook") from error
    function()
