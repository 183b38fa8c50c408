"""Plays a trajectory again in a sandbox of its image, and keeps snapshots of the steps that may become rows.

Law     a step has a snapshot only where every call before it gave the recorded result (`replay_results`). Where one
        does not, the replay ends there and says why. Steps between which nothing was changed share a snapshot; before
        the first change it is the image itself.
Place   a command runs in a shell of its own, in the directory that the history shows; what a lasting shell exported is
        not there.
Owner   snapshots of a replay that does not come to its end here, for whatever reason, are removed.
Errors  SandboxError is the machine's, ImageMissing and the other RowErrors the data's.
"""

import time
import uuid
from collections.abc import Collection, Iterable
from typing import Literal

from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.resources_servers.pivot.executed.runs import ACTION_ENV, ActionRunner, CallRefusedError, is_runnable
from paddock.resources_servers.pivot.executed.step import StepSnapshot
from paddock.resources_servers.pivot.mining.candidates import TrajectoryStep, may_change, steps_of
from paddock.resources_servers.pivot.mining.replay_options import ReplayOptions
from paddock.resources_servers.pivot.mining.replay_results import difference
from paddock.resources_servers.pivot.mining.trajectory import Trajectory
from paddock.resources_servers.pivot.semantic import SemanticOptions
from paddock.resources_servers.pivot.semantic.calls import RowTools
from paddock.resources_servers.pivot.semantic.place import Places
from paddock.sandbox import BudgetExceeded, SandboxSpec
from paddock.sandbox.images import ImageStore
from paddock.sandbox.images.prepare import StoreProvider
from paddock.tools import Action, Ask, Finish, ListFolder, Search, Think, UpdatePlan
from paddock.types import Record

ReplayEnd = Literal[
    "whole", "no_image", "differs", "not_runnable", "place_unknown", "time", "disk", "over_budget", "sandbox_failed"
]


class TrajectoryReplay(Record):
    """How far a trajectory could be played again."""

    trajectory: str
    end: ReplayEnd
    step: int
    """The step at which it ended; of a `whole` one the number of its steps."""
    detail: str = ""
    snapshots: dict[int, StepSnapshot] = {}
    """By the number of the step that starts from it."""
    names: tuple[str, ...] = ()
    """Images that were made for it."""
    disk_mib: float = 0.0
    """What these take."""


def remove_images(store: ImageStore, names: Iterable[str]) -> None:
    """Remove images that are there."""
    for name in set(names) & set(store.names()):
        store.remove(name)


class ReplayStopError(Exception):
    """A step that cannot be played as recorded."""

    def __init__(self, end: ReplayEnd, detail: str = "") -> None:
        super().__init__(detail)
        self.end = end


class Replay:
    """One trajectory, played in one sandbox."""

    def __init__(
        self,
        provider: StoreProvider,
        trajectory: Trajectory,
        start: StepSnapshot,
        *,
        prefix: str,
        room_mib: float,
        executed: ExecutedOptions,
        options: ReplayOptions,
    ) -> None:
        """`prefix`: of the names of its snapshots. `room_mib`: what these may take."""
        self._provider = provider
        self._trajectory = trajectory
        self._start = start
        self._prefix = prefix
        self._room_mib = room_mib
        self._executed = executed
        self._options = options
        self._names: list[str] = []
        self._image: str | None = start.image
        """What the sandbox's files are now; None: nothing that was kept."""
        self._snapshots: dict[int, StepSnapshot] = {}

    async def run(self, wanted: Collection[int]) -> TrajectoryReplay:
        """Play up to the last of the steps `wanted`, and keep a snapshot of each."""
        spec = SandboxSpec(
            image=self._start.image,
            workdir=self._start.workdir,
            env=ACTION_ENV,
            limits=self._executed.limits,
            purpose="grading",
        )
        handle = await self._provider.create(spec, request_id=uuid.uuid4().hex)
        before_mib = self._room_mib
        try:
            end, step, detail = await self._steps(handle.sandbox_id, wanted)
        except BaseException:
            remove_images(self._provider.store, self._names)
            raise
        finally:
            await self._provider.destroy(handle.sandbox_id)
        return TrajectoryReplay(
            trajectory=self._trajectory.name,
            end=end,
            step=step,
            detail=detail[:300],
            snapshots=self._snapshots,
            names=tuple(self._names),
            disk_mib=round(before_mib - self._room_mib, 3),
        )

    async def _steps(self, sandbox_id: str, wanted: Collection[int]) -> tuple[ReplayEnd, int, str]:
        number, last = 0, max(wanted, default=-1)
        deadline = time.monotonic() + self._options.trajectory_timeout_s
        try:
            for number, step in enumerate(steps_of(self._trajectory, RowTools({"tools": self._trajectory.tools}))):
                if number > last:
                    return "whole", number, ""
                if time.monotonic() > deadline:
                    raise ReplayStopError("time", f"over {self._options.trajectory_timeout_s:g} s")
                place = self._place(step)
                if number in wanted:
                    self._snapshots[number] = StepSnapshot(image=await self._keep(sandbox_id, number), workdir=place)
                if number < last:
                    await self._play(sandbox_id, step, place)
        except ReplayStopError as stop:
            return stop.end, number, str(stop)
        except BudgetExceeded as over:
            return "over_budget", number, over.message
        return "whole", number + 1, ""

    def _place(self, step: TrajectoryStep) -> str:
        options = SemanticOptions(cwd=self._trajectory.cwd or self._start.workdir)
        place = Places({"input": self._trajectory.items[: step.at]}, options, {}).last
        if place is None:
            raise ReplayStopError("place_unknown", "the history does not show where the step's tools run")
        return place

    async def _keep(self, sandbox_id: str, number: int) -> str:
        if self._image is None:
            size_mib = (await self._provider.stats(sandbox_id)).disk_mib
            if size_mib > self._room_mib:
                raise ReplayStopError(
                    "disk", f"a snapshot of {size_mib:.0f} MiB, and {self._room_mib:.0f} MiB are left"
                )
            name = f"{self._prefix}{number}"
            self._image = await self._provider.snapshot(sandbox_id, name)
            self._names.append(name)
            self._room_mib -= size_mib
        return self._image

    async def _play(self, sandbox_id: str, step: TrajectoryStep, place: str) -> None:
        for action, recorded in zip(step.actions, step.results, strict=True):
            if isinstance(action, Search | ListFolder | Think | UpdatePlan | Ask | Finish):
                continue  # it changes nothing, and its result is not compared
            if action is None or not is_runnable(action):
                raise ReplayStopError("not_runnable", f"{type(action).__name__} cannot be run here")
            if may_change(action):
                self._image = None
            shown, refusal = await self._show(sandbox_id, action, place)
            why = difference(action, shown, refusal, recorded, self._options.min_same_lines)
            if why:
                raise ReplayStopError("differs", why)

    async def _show(self, sandbox_id: str, action: Action, place: str) -> tuple[str, str]:
        try:
            return await ActionRunner(self._provider, sandbox_id, place, self._executed).show(action), ""
        except CallRefusedError as refusal:
            return "", str(refusal)
