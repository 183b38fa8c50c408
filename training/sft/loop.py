"""The loop of a fine-tuning run: epochs of steps, the held-out loss, checkpoints.

Epoch   the samples in an order of their own, in steps of like size, as near to the size of a batch as their number
        allows; each step is one optimiser step.
Loss    of a step, and held out, in nats: the mean negative log-prob of all trained tokens, whatever samples they are
        in.
Resume  a run that goes on from a checkpoint has the steps that it would have had, to the bit: which samples a step has
        depends on its number alone. The report of a step is on the disk before its checkpoint is.
Saves   as `grpo.saves` says; the last is whole before weights are exported.
Errors  those of the policy; InfraError when the disk refuses.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.training.grpo.checkpoints import Checkpoint, Checkpoints, LoopState, write_whole_folder
from paddock.training.grpo.roles import ScoringPolicy
from paddock.training.grpo.saves import CheckpointSaves
from paddock.training.sft.samples import SftSample, batch_of

SHOWN_METRICS = ("train/loss", "train/grad_norm", "train/lr", "train/skipped_updates")
"""Metrics of the policy that have a meaning here: there is no engine, and there are no advantages."""


class SftSteps(NamedTuple):
    """Which samples each step has."""

    n_samples: int
    batch_size: int
    seed: int
    shuffle: bool

    @property
    def per_epoch(self) -> int:
        return max(1, (self.n_samples + self.batch_size // 2) // self.batch_size)

    def samples(self, step: int) -> list[int]:
        """The indices of the samples of a step, from 0 over all epochs."""
        epoch, nth = divmod(step, self.per_epoch)
        order = list(range(self.n_samples))
        if self.shuffle:
            random.Random(f"{self.seed} {epoch}").shuffle(order)
        start, end = (self.n_samples * at // self.per_epoch for at in (nth, nth + 1))
        return order[start:end]


class SftLoopSettings(NamedTuple):
    """The settings of a loop."""

    steps: SftSteps
    n_steps: int
    """Steps after which the run ends."""
    val_period: int
    val_at_start: bool
    save_period: int
    metric: str | None
    """The metric by which checkpoints are kept, as it is logged."""
    export: Path
    """Folder to which the weights of the best checkpoint are written at the end, in the format of Hugging Face."""
    must_save_by_s: float | None = None
    """After so long the run ends with the current step and stores a checkpoint; None: it has no such limit."""
    save_in_background: bool = False
    """Whether the next steps run while a checkpoint is written."""


class SftResult(NamedTuple):
    """How a run ended."""

    steps: int
    checkpoint: Path | None
    """The newest."""
    exported: int
    """How many steps the exported weights have had."""
    held_out: dict[int, float]
    """The held-out loss that this start measured, by the number of steps before."""


class SftLoop:
    """`report` is called with the number of steps that were done and the metrics; its line is on the disk when it
    returns."""

    def __init__(
        self,
        settings: SftLoopSettings,
        policy: ScoringPolicy,
        trained: Sequence[SftSample],
        held_out: Sequence[SftSample],
        report: Callable[[int, Mapping[str, float]], None],
        checkpoints: Checkpoints | None,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._trained = trained
        self._held_out = held_out
        self._report = report
        self._checkpoints = checkpoints
        self._saves = CheckpointSaves(checkpoints, policy, None, background=settings.save_in_background)
        self._started = time.monotonic()
        self._measured: dict[int, float] = {}

    async def run(self, resumed: Checkpoint | None = None) -> SftResult:
        """Train to the end. `resumed`: the checkpoint to go on from."""
        try:
            return await self._run(resumed)
        finally:
            await self._saves.cancel()

    async def _run(self, resumed: Checkpoint | None) -> SftResult:
        settings, step = self._settings, 0
        if self._checkpoints is not None:
            self._checkpoints.clean()
        if resumed is not None:
            await self._policy.load(resumed.policy)
            step, self._saves.newest = resumed.step, resumed
        elif settings.val_at_start and self._held_out:
            self._report(0, await self._held_out_loss(0))
        ends = step >= settings.n_steps
        while not ends:
            metrics = await self._step(step)
            step += 1
            ends = step == settings.n_steps or self._is_late()
            epoch_ends = step % settings.steps.per_epoch == 0
            if self._held_out and (ends or epoch_ends or (settings.val_period and step % settings.val_period == 0)):
                metrics |= await self._held_out_loss(step)
            self._report(step, metrics)
            if ends or epoch_ends or step % settings.save_period == 0:
                await self._save(step, metrics)
            await self._saves.collect()
        await self._saves.finish()
        newest = self._saves.newest
        return SftResult(step, newest.folder if newest else None, await self._export(step), self._measured)

    async def _step(self, step: int) -> dict[str, float]:
        start = time.monotonic()
        samples = [self._trained[nth] for nth in self._settings.steps.samples(step)]
        result = await self._policy.train(batch_of(samples, step))
        seconds, tokens = time.monotonic() - start, sum(sample.tokens for sample in samples)
        own = {name: result.metrics[name] for name in SHOWN_METRICS if name in result.metrics}
        rates = {"timing/step_s": seconds, "timing/tokens_per_s": tokens / max(seconds, 1e-9)}
        return {
            **own,
            "train/epoch": (step + 1) / self._settings.steps.per_epoch,
            "train/tokens": float(tokens),
            **rates,
        }

    async def _held_out_loss(self, step: int) -> dict[str, float]:
        """Measured batch by batch, so that no call carries all samples."""
        start, size = time.monotonic(), self._settings.steps.batch_size
        parts = [
            await self._policy.token_nll(batch_of(self._held_out[at : at + size], step))
            for at in range(0, len(self._held_out), size)
        ]
        loss = sum(part.total for part in parts) / sum(part.tokens for part in parts)
        self._measured[step] = loss
        return {"validation/loss": loss, "timing/validate_s": time.monotonic() - start}

    async def _save(self, step: int, metrics: Mapping[str, float]) -> None:
        await self._saves.finish()
        metric = metrics.get(self._settings.metric) if self._settings.metric is not None else None
        await self._saves.save(step, metric, LoopState({"step": step}, []))

    async def _export(self, step: int) -> int:
        best = self._checkpoints.best() if self._checkpoints is not None else None
        if best is not None and best.step != step:
            await self._policy.load(best.policy)
        await write_whole_folder(self._settings.export, self._policy.export)
        return best.step if best is not None else step

    def _is_late(self) -> bool:
        limit = self._settings.must_save_by_s
        return limit is not None and time.monotonic() - self._started > limit
