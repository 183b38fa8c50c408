"""The books of a run: which groups were begun, run, wait for their step, were trained on, or were lost, and why.

Law     each group that was begun is at exactly one of these places, whatever happens; none is counted twice, none
        disappears. What is stored (`to_wire`, and `waiting` beside it) is the whole of it: books made of that go on as
        these do, with the groups that ran begun again under their ids.
Order   rows are taken in `RowOrder`'s order; groups are trained on in the buffer's.
Errors  ConfigError when what was stored is of a dataset of another length.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, get_args

from paddock.errors import ConfigError
from paddock.training.core.admission import Admission
from paddock.training.core.buffer import ReplayBuffer
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Group
from paddock.training.core.settings import GrpoSettings
from paddock.types import JsonObject

Why = Literal["slow", "too_old", "dropped"]
"""`slow`: it ran longer than its age allows; `too_old`: it ended, but newer ones were enough until it was too old;
`dropped`: too few of its members had a verdict."""


class Begun(NamedTuple):
    """A group that runs, or has to be begun again."""

    id: int
    row: int
    epoch: int
    version: int
    """Of the newest weights that had been sent when it began."""


class Lost(NamedTuple):
    """A group that was not, and won't be, trained on."""

    id: int
    row: int
    epoch: int
    why: Why


class Ledger:
    """Of one run. `step`: the one to train next; `version`: of the newest weights that were sent."""

    def __init__(self, grpo: GrpoSettings, order: RowOrder) -> None:
        self.admission = Admission(grpo.num_prompts_per_step, grpo.max_age)
        self.order = order
        self.step = 0
        self.version = 0
        self.n_begun = 0
        """Groups; the id of the next one."""
        self.n_trained = 0
        self.running: dict[int, Begun] = {}
        self.waiting = ReplayBuffer(self.admission)
        self.lost: dict[Why, int] = dict.fromkeys(get_args(Why), 0)
        self._training: list[int] = []

    @property
    def n_alive(self) -> int:
        """Groups that run, wait or are being trained on."""
        return len(self.running) + len(self.waiting) + len(self._training)

    @property
    def starved(self) -> bool:
        """Whether the rows are used up, and what is left is too little for another step."""
        there = len(self.running) + len(self.waiting)
        return self.order.at_end and there < self.admission.num_prompts_per_step

    @property
    def ready(self) -> bool:
        """Whether there are enough groups for `step`."""
        return self.waiting.ready(self.step)

    def begin(self) -> Begun | None:
        """The next group, if one may begin."""
        if not self.admission.room(step=self.step, version=self.version, alive=self.n_alive):
            return None
        taken = self.order.take()
        if taken is None:
            return None
        begun = Begun(id=self.n_begun, row=taken.row, epoch=taken.epoch, version=self.version)
        self.n_begun += 1
        self.running[begun.id] = begun
        return begun

    def ended(self, group: Group) -> None:
        """A group that runs has ended, and is to be trained on."""
        del self.running[group.id]
        self.waiting.put(group)

    def dropped(self, group: Group) -> Lost:
        """A group that runs has ended, and is of no use."""
        del self.running[group.id]
        return self._lose(group, "dropped")

    def give_up(self) -> list[Lost]:
        """Everything that `step` can't train on any more; what of it still runs has to be ended."""
        slow = [begun for begun in self.running.values() if not self.admission.usable(begun.version, self.step)]
        for begun in slow:
            del self.running[begun.id]
        lost = [self._lose(begun, "slow") for begun in slow]
        return lost + [self._lose(group, "too_old") for group in self.waiting.give_up(self.step)]

    def take(self) -> list[Group] | None:
        """The groups to train on in `step`; None while there are not enough."""
        taken = self.waiting.take(self.step)
        if taken is not None:
            self._training = [group.id for group in taken]
        return taken

    def trained(self) -> None:
        """`step` has been trained with what was taken for it."""
        self.n_trained += len(self._training)
        self._training = []
        self.step += 1

    def sent(self) -> None:
        """The newest weights were sent."""
        self.version = self.step

    def to_wire(self) -> JsonObject:
        """Everything but the groups of `waiting`. Between steps alone: what is being trained on is in neither."""
        return {
            "step": self.step,
            "n_begun": self.n_begun,
            "n_trained": self.n_trained,
            "running": [begun._asdict() for begun in self.running.values()],
            "lost": dict(self.lost),
            "n_rows": self.order.n_rows,
            "epoch": self.order.epoch,
            "position": self.order.position,
        }

    @classmethod
    def from_wire(cls, wire: JsonObject, waiting: Iterable[Group], *, grpo: GrpoSettings, order: RowOrder) -> Self:
        """`order`: of the dataset as it is now, at its start."""
        if wire["n_rows"] != order.n_rows:
            raise ConfigError(
                f"the checkpoint is of a run over {wire['n_rows']} rows, the dataset has {order.n_rows}: go on with "
                "the rows it had, or begin a new run",
                kind="other_rows",
            )
        order.move_to(wire["epoch"], wire["position"])
        ledger = cls(grpo, order)
        ledger.step = ledger.version = wire["step"]
        ledger.n_begun, ledger.n_trained = wire["n_begun"], wire["n_trained"]
        begun = [Begun(**each)._replace(version=ledger.version) for each in wire["running"]]
        ledger.running = {each.id: each for each in begun}
        ledger.waiting = ReplayBuffer(ledger.admission, waiting)
        ledger.lost.update(wire["lost"])
        return ledger

    def _lose(self, group: Group | Begun, why: Why) -> Lost:
        self.lost[why] += 1
        return Lost(id=group.id, row=group.row, epoch=group.epoch, why=why)
