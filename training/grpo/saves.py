"""The checkpoints that a loop stores: before it goes on, or while its next steps run.

Law     one at a time: a checkpoint begins when the one before is whole. It has the state of its moment, which the
        policy copies and the loop hands over; it counts, and takes the place of older ones, when all its parts are on
        the disk. One that fails ends the run after the step in which it failed, or at the run's end.
Errors  those of `checkpoints` and of the roles, in stage `save` or `checkpoint`.
"""

import asyncio
from pathlib import Path

from paddock.training.grpo.calls import role_call
from paddock.training.grpo.checkpoints import Checkpoint, Checkpoints, LoopState
from paddock.training.grpo.roles import Policy, Rollouts


class CheckpointSaves:
    """The saves of one run. `checkpoints` None: none are stored; `rollouts` None: none are collected."""

    def __init__(
        self, checkpoints: Checkpoints | None, policy: Policy, rollouts: Rollouts | None, *, background: bool
    ) -> None:
        self.newest: Checkpoint | None = None
        """The newest whole checkpoint of the run."""
        self._checkpoints = checkpoints
        self._policy = policy
        self._rollouts = rollouts
        self._background = background
        self._writing: asyncio.Task[Checkpoint] | None = None

    async def save(self, step: int, metric: float | None, state: LoopState) -> None:
        """Store a checkpoint, once the one before is whole (`finish`); in the background, begin to, and return once its
        state is taken."""
        if self._checkpoints is None:
            return
        taken = asyncio.Event()

        async def fill(folder: Path) -> None:
            with role_call("the policy", "save"):
                await self._policy.save(folder / "policy", background=self._background)
            if self._rollouts is not None:
                with role_call("the rollout worker", "checkpoint"):
                    await self._rollouts.checkpoint(folder / "rollouts")
            taken.set()
            if self._background:
                with role_call("the policy", "save"):
                    await self._policy.finish_save()

        self._writing = asyncio.create_task(self._checkpoints.write(step, metric, state, fill))
        if not self._background:
            await self.finish()
            return
        waiting = asyncio.create_task(taken.wait())
        await asyncio.wait([self._writing, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await self.collect()

    async def collect(self) -> None:
        """Take note of a checkpoint that has become whole, or failed, meanwhile."""
        if self._writing is not None and self._writing.done():
            await self.finish()

    async def finish(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._writing is not None:
            self.newest = await self._writing
            self._writing = None

    async def cancel(self) -> None:
        """Give up the one that is being written: it is not there."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
