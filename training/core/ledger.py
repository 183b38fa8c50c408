"""The ledger of a run: which groups run, wait for their step, were trained on, or were lost, and why.

Law     each group that was started is in exactly one of these states, whatever happens; none is counted twice, none
        disappears. What is stored (`to_wire`, and `waiting` beside it) is the whole ledger: one made from it goes on
        as this one does, with the groups that ran started again under their ids.
Order   rows are taken in `RowOrder`'s order; groups are trained on in the buffer's.
Retries a row whose group was given up for its age is started again before any other row, `max_age_retries` times; the
        loop waits for the last of its groups. So no row is lost to its length; only an engine that lags behind, and
        samples with weights older than those that were sent, can still make such a group too old.
Errors  ConfigError when the stored ledger is of a dataset of another length.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, get_args

from paddock.errors import ConfigError
from paddock.training.core.admission import GroupAdmission
from paddock.training.core.buffer import ReplayBuffer
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.types import JsonObject

LostReason = Literal["slow", "too_old", "dropped"]
"""Why a group is lost. `slow`: it still ran when no later step could take it; `too_old`: it ended, but steps took newer
groups until it was too old; `dropped`: too few of its members had a verdict."""


class RunningGroup(NamedTuple):
    """A group that runs, or that a resumed run has to start again."""

    id: int
    row: int
    epoch: int
    version: int
    """Version of the newest weights that had been sent when it started."""


class RowRetry(NamedTuple):
    """A row that has to be run again, because its groups so far were given up for their age."""

    row: int
    epoch: int
    tries: int
    """How many groups of the row were given up so far."""


class LostGroup(NamedTuple):
    """A group that was not trained on, and will not be."""

    id: int
    row: int
    epoch: int
    why: LostReason
    again: bool = False
    """Whether its row is run again."""
    seconds: float | None = None
    """How long the group had run; None: it was not measured."""


class Ledger:
    """The ledger of one run. `step` is the step to train next, `version` that of the newest weights that were sent."""

    def __init__(self, grpo: GrpoSettings, order: RowOrder, groups: GroupSettings | None = None) -> None:
        """`groups` None stands for the default settings."""
        self._max_retries = (groups or GroupSettings()).max_age_retries
        self.admission = GroupAdmission(grpo.num_prompts_per_step, grpo.max_age)
        self.order = order
        self.step = 0
        self.version = 0
        self.n_started = 0
        """How many groups were started; the id of the next one."""
        self.n_trained = 0
        self.running: dict[int, RunningGroup] = {}
        self.waiting = ReplayBuffer(self.admission)
        self.lost: dict[LostReason, int] = dict.fromkeys(get_args(LostReason), 0)
        """How many groups were lost, by reason."""
        self.retries: deque[RowRetry] = deque()
        self.n_retries = 0
        """How many of the lost groups had their row queued again."""
        self._tries: dict[int, int] = {}
        """By group that runs or waits: how many groups of its row were given up before; a missing id stands for 0."""
        self._training: list[int] = []

    @property
    def n_alive(self) -> int:
        """How many groups run, wait or are being trained on."""
        return len(self.running) + len(self.waiting) + len(self._training)

    @property
    def starved(self) -> bool:
        """Whether the rows are used up, and what is left is too little for another step."""
        n_left = len(self.running) + len(self.waiting)
        return self.order.at_end and not self.retries and n_left < self.admission.num_prompts_per_step

    @property
    def ready(self) -> bool:
        """Whether enough groups wait for `step`, and none that it must wait for still runs."""
        return self.waiting.ready(self.step) and not self._has_to_wait()

    def begin(self) -> RunningGroup | None:
        """Start the next group; None when none may start now, or no row is left."""
        if not self.admission.room(step=self.step, version=self.version, alive=self.n_alive):
            return None
        row = self.retries.popleft() if self.retries else self.order.take()
        if row is None:
            return None
        group = RunningGroup(id=self.n_started, row=row.row, epoch=row.epoch, version=self.version)
        if isinstance(row, RowRetry):
            self._tries[group.id] = row.tries
        self.n_started += 1
        self.running[group.id] = group
        return group

    def end(self, group: Group) -> None:
        """Move a running group that has ended to those that wait for their step."""
        del self.running[group.id]
        self.waiting.put(group)

    def drop(self, group: Group) -> LostGroup:
        """Count a running group that has ended, and can't be trained on, as lost."""
        del self.running[group.id]
        self._tries.pop(group.id, None)
        return self._lose(group, "dropped")._replace(seconds=group.seconds)

    def give_up(self) -> list[LostGroup]:
        """Count every group that `step` can no longer train on as lost; the caller ends those that still run."""
        slow = [group for group in self.running.values() if not self.admission.usable(group.version, self.step)]
        for group in slow:
            del self.running[group.id]
        lost = [self._try_again(group, "slow") for group in slow]
        old = self.waiting.give_up(self.step)
        return lost + [self._try_again(group, "too_old")._replace(seconds=group.seconds) for group in old]

    def take(self) -> list[Group] | None:
        """Take the groups to train on in `step`; None while it is not `ready`."""
        taken = self.waiting.take(self.step) if self.ready else None
        if taken is not None:
            self._training = [group.id for group in taken]
            for group in taken:
                self._tries.pop(group.id, None)
        return taken

    def finish_step(self) -> None:
        """Count the groups taken for `step` as trained on, and go to the next step."""
        self.n_trained += len(self._training)
        self._training = []
        self.step += 1

    def finish_sending(self) -> None:
        """Note that the newest weights were sent."""
        self.version = self.step

    def to_wire(self) -> JsonObject:
        """Everything but the groups of `waiting`. To be called between steps: what is trained on is in neither."""
        return {
            "step": self.step,
            "n_started": self.n_started,
            "n_trained": self.n_trained,
            "running": [group._asdict() for group in self.running.values()],
            "lost": dict(self.lost),
            "retries": [retry._asdict() for retry in self.retries],
            "n_retries": self.n_retries,
            "tries": list(self._tries.items()),
            "n_rows": self.order.n_rows,
            "epoch": self.order.epoch,
            "position": self.order.position,
        }

    @classmethod
    def from_wire(
        cls,
        wire: JsonObject,
        waiting: Iterable[Group],
        *,
        grpo: GrpoSettings,
        order: RowOrder,
        groups: GroupSettings | None = None,
    ) -> Self:
        """The stored ledger. `order` is that of the dataset as it is now, at its start."""
        if wire["n_rows"] != order.n_rows:
            raise ConfigError(
                f"the checkpoint is of a run over {wire['n_rows']} rows, the dataset has {order.n_rows}: go on with "
                "the rows it had, or begin a new run",
                kind="other_rows",
            )
        order.move_to(wire["epoch"], wire["position"])
        ledger = cls(grpo, order, groups)
        ledger.step = ledger.version = wire["step"]
        ledger.n_started, ledger.n_trained = wire["n_started"], wire["n_trained"]
        running = [RunningGroup(**fields)._replace(version=ledger.version) for fields in wire["running"]]
        ledger.running = {group.id: group for group in running}
        ledger.waiting = ReplayBuffer(ledger.admission, waiting)
        ledger.lost.update(wire["lost"])
        ledger.retries.extend(RowRetry(**fields) for fields in wire["retries"])
        ledger.n_retries = wire["n_retries"]
        ledger._tries = dict(wire["tries"])
        return ledger

    def _has_to_wait(self) -> bool:
        """Whether `step` must wait for groups that are the last try of their rows: were it taken now, not all of them
        would find a step. Of those too old after `more` further steps, as many fit as these steps train on, beside the
        groups that have ended."""
        prompts, max_age = self.admission.num_prompts_per_step, self.admission.max_age
        last = [group.version for group in self.running.values() if self._tries_of(group) >= self._max_retries]
        for more in range(max_age if last else 0):
            oldest = self.step + more - max_age
            n_running = sum(version <= oldest for version in last)
            n_ended = self.waiting.count_up_to(oldest)
            if n_running and n_running + max(0, n_ended - prompts) > more * prompts:
                return True
        return False

    def _tries_of(self, group: Group | RunningGroup) -> int:
        return self._tries.get(group.id, 0)

    def _try_again(self, group: Group | RunningGroup, why: LostReason) -> LostGroup:
        tries = self._tries.pop(group.id, 0)
        if tries >= self._max_retries:
            return self._lose(group, why)
        self.retries.append(RowRetry(group.row, group.epoch, tries + 1))
        self.n_retries += 1
        return self._lose(group, why)._replace(again=True)

    def _lose(self, group: Group | RunningGroup, why: LostReason) -> LostGroup:
        self.lost[why] += 1
        return LostGroup(id=group.id, row=group.row, epoch=group.epoch, why=why)
