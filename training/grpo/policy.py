"""The policy on torch: a model of Transformers, in one process or sharded over several (FSDP2).

Law     all work is done in one thread, a call after the other, so that the event loop stays free, and settings of torch
        that belong to a thread hold. A cancelled call ends its waiting, not what was begun.
        Of several processes each has its own `TorchPolicy`, and every method is called on all of them with the same
        arguments at the same time (`PolicyProcesses` does); rank 0 writes, sends and answers.
Errors  ConfigError for a model or a schedule that can't be made; what torch raises is not caught.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from paddock.training.core.records import Batch
from paddock.training.grpo.language_model import DTYPES, checkpoint_form
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.policy_settings import ALONE, Place, PolicySettings
from paddock.training.grpo.roles import Replica, Sent, Trained
from paddock.training.grpo.saving import export_model, load_state, save_state
from paddock.training.grpo.sending import Sender, vllm_sender
from paddock.training.grpo.sharding import Processes, device_of, whole_weights

T = TypeVar("T")


async def make_policy(settings: PolicySettings, place: Place = ALONE) -> "TorchPolicy":
    """In this process; with several of them it waits for the others."""
    return await asyncio.to_thread(TorchPolicy, settings, place)


class TorchPolicy:
    """`roles.Policy`. Made with the model loaded."""

    def __init__(self, settings: PolicySettings, place: Place = ALONE, *, sender: Sender | None = None) -> None:
        self._settings = settings
        self._device = device_of(settings.policy.torch_cfg, place)
        self._sender = sender or vllm_sender(
            backend="nccl" if self._device.type == "cuda" else "gloo", device=self._device, address=place.master_address
        )
        self._processes = Processes(place, self._device)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policy", initializer=self._prepare)
        self._learner = self._thread.submit(self._make).result()

    async def train(self, batch: Batch) -> Trained:
        return await self._run(lambda: self._learner.train(batch))

    async def send(self, version: int, replicas: list[Replica], *, clear_cache: bool) -> Sent:
        return await self._run(lambda: self._send(version, replicas, clear_cache=clear_cache))

    async def save(self, folder: Path) -> None:
        learner = self._learner
        await self._run(
            lambda: save_state(folder, self._processes, learner.model.model, learner.optimizer, learner.scheduler)
        )

    async def load(self, folder: Path) -> None:
        learner = self._learner
        await self._run(
            lambda: load_state(folder, self._processes, learner.model.model, learner.optimizer, learner.scheduler)
        )

    async def export(self, folder: Path) -> None:
        await self._run(lambda: export_model(folder, self._processes, self._learner.model.model, self._settings.policy))

    async def stop(self) -> None:
        await self._run(self._end)
        self._thread.shutdown(wait=False)

    def _prepare(self) -> None:
        threads = self._settings.policy.torch_cfg.threads
        if threads is not None and self._device.type == "cpu":
            torch.set_num_threads(threads)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)

    def _make(self) -> Learner:
        self._processes.join()
        return Learner(self._settings, self._processes)

    def _send(self, version: int, replicas: list[Replica], *, clear_cache: bool) -> Sent:
        dtype = DTYPES[self._settings.policy.precision]
        model = self._learner.model.model
        weights = dict(whole_weights(model, self._processes, dtype))
        if not self._processes.first:
            return Sent(version, (), 0.0, 0.0, 0.0)
        return self._sender.send(version, checkpoint_form(model, weights), replicas, clear_cache=clear_cache)

    def _end(self) -> None:
        self._sender.close()
        self._processes.leave()

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
