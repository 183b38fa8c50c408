"""The policy on torch: a model of Transformers, in one process or sharded over several (FSDP2).

Law     that of `policy_thread`.
Errors  ConfigError for a model or a schedule that can't be made; what torch raises is not caught.
"""

import asyncio
from pathlib import Path

from paddock.training.core.records import Batch
from paddock.training.grpo.language_model import DTYPES, checkpoint_form
from paddock.training.grpo.learner import Learner
from paddock.training.grpo.policy_settings import ALONE, Place, PolicySettings
from paddock.training.grpo.policy_thread import ThreadedPolicy
from paddock.training.grpo.roles import Replica, Sent, Trained
from paddock.training.grpo.saving import export_model, load_state, save_state
from paddock.training.grpo.sending import Sender
from paddock.training.grpo.sharding import Processes, whole_weights


async def make_policy(settings: PolicySettings, place: Place = ALONE) -> "TorchPolicy":
    """In this process; with several of them it waits for the others."""
    return await asyncio.to_thread(TorchPolicy, settings, place)


class TorchPolicy(ThreadedPolicy):
    """`roles.Policy`. Made with the model loaded."""

    def __init__(self, settings: PolicySettings, place: Place = ALONE, *, sender: Sender | None = None) -> None:
        super().__init__(settings, place, sender)
        self._processes = Processes(place, self._device)
        self._learner = self._made(self._make)

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
        super()._end()
        self._processes.leave()
