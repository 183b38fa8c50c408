"""The books of a run: which groups were begun, run, wait for their step, were trained on, or were lost, and why.

Law     each group that was begun is at exactly one of these places, whatever happens; none is counted twice, none
        disappears. What is stored (`to_wire`, and `waiting` beside it) is the whole of it: books made of that go on as
        these do, with the groups that ran begun again under their ids.
Order   rows are taken in `RowOrder`'s order; groups are trained on in the buffer's.
Again   a row whose group was given up for its age is begun again before any other row, `max_age_retries` times; the
        last of its groups is waited for. So no row is lost to its length; only an engine that lags behind, and samples
        with weights older than those that were sent, can still make such a group too old.
Errors  ConfigError when what was stored is of a dataset of another length.
"""

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple, Self, get_args

from paddock.errors import ConfigError
from paddock.training.core.admission import Admission
from paddock.training.core.buffer import ReplayBuffer
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.types import JsonObject

Why = Literal["slow", "too_old", "dropped"]
"""`slow`: it ran long: it still ran when no step to come could take it; `too_old`: it ended, but newer ones were enough
until it was too old; `dropped`: too few of its members had a verdict."""


class Begun(NamedTuple):
    """A group that runs, or has to be begun again."""

    id: int
    row: int
    epoch: int
    version: int
    """Of the newest weights that had been sent when it began."""


class Again(NamedTuple):
    """A row's turn that came, and whose groups so far were given up for their age."""

    row: int
    epoch: int
    tries: int
    """Groups so far."""


class Lost(NamedTuple):
    """A group that was not, and won't be, trained on."""

    id: int
    row: int
    epoch: int
    why: Why
    again: bool = False
    """Its row is begun again."""
    seconds: float | None = None
    """How long it had run; None: nobody measured."""


class Ledger:
    """Of one run. `step`: the one to train next; `version`: of the newest weights that were sent."""

    def __init__(self, grpo: GrpoSettings, order: RowOrder, groups: GroupSettings | None = None) -> None:
        """`groups`: None: their defaults."""
        self._max_retries = (groups or GroupSettings()).max_age_retries
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
        """Groups."""
        self.again: deque[Again] = deque()
        self.n_again = 0
        """Groups of `lost` whose row was queued again."""
        self._tries: dict[int, int] = {}
        """Of groups that run or wait: how many of their row's turn were given up before; none is left out."""
        self._training: list[int] = []

    @property
    def n_alive(self) -> int:
        """Groups that run, wait or are being trained on."""
        return len(self.running) + len(self.waiting) + len(self._training)

    @property
    def starved(self) -> bool:
        """Whether the rows are used up, and what is left is too little for another step."""
        there = len(self.running) + len(self.waiting)
        return self.order.at_end and not self.again and there < self.admission.num_prompts_per_step

    @property
    def ready(self) -> bool:
        """Whether there are enough groups for `step`, and none that it has to wait for."""
        return self.waiting.ready(self.step) and not self._has_to_wait()

    def begin(self) -> Begun | None:
        """The next group, if one may begin."""
        if not self.admission.room(step=self.step, version=self.version, alive=self.n_alive):
            return None
        taken = self.again.popleft() if self.again else self.order.take()
        if taken is None:
            return None
        begun = Begun(id=self.n_begun, row=taken.row, epoch=taken.epoch, version=self.version)
        if isinstance(taken, Again):
            self._tries[begun.id] = taken.tries
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
        self._tries.pop(group.id, None)
        return self._lose(group, "dropped")._replace(seconds=group.seconds)

    def give_up(self) -> list[Lost]:
        """Everything that `step` can't train on any more; what of it still runs has to be ended."""
        slow = [begun for begun in self.running.values() if not self.admission.usable(begun.version, self.step)]
        for begun in slow:
            del self.running[begun.id]
        lost = [self._try_again(begun, "slow") for begun in slow]
        old = self.waiting.give_up(self.step)
        return lost + [self._try_again(group, "too_old")._replace(seconds=group.seconds) for group in old]

    def take(self) -> list[Group] | None:
        """The groups to train on in `step`; None while it is not `ready`."""
        taken = self.waiting.take(self.step) if self.ready else None
        if taken is not None:
            self._training = [group.id for group in taken]
            for group in taken:
                self._tries.pop(group.id, None)
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
            "again": [each._asdict() for each in self.again],
            "n_again": self.n_again,
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
        """`order`: of the dataset as it is now, at its start."""
        if wire["n_rows"] != order.n_rows:
            raise ConfigError(
                f"the checkpoint is of a run over {wire['n_rows']} rows, the dataset has {order.n_rows}: go on with "
                "the rows it had, or begin a new run",
                kind="other_rows",
            )
        order.move_to(wire["epoch"], wire["position"])
        ledger = cls(grpo, order, groups)
        ledger.step = ledger.version = wire["step"]
        ledger.n_begun, ledger.n_trained = wire["n_begun"], wire["n_trained"]
        begun = [Begun(**each)._replace(version=ledger.version) for each in wire["running"]]
        ledger.running = {each.id: each for each in begun}
        ledger.waiting = ReplayBuffer(ledger.admission, waiting)
        ledger.lost.update(wire["lost"])
        ledger.again.extend(Again(**each) for each in wire["again"])
        ledger.n_again = wire["n_again"]
        ledger._tries = dict(wire["tries"])
        return ledger

    def _has_to_wait(self) -> bool:
        """Whether last groups of their rows that still run would not all find a step, were this one taken now: of those
        that are too old after `more` further steps, as many fit as these train on, beside what has ended."""
        prompts, max_age = self.admission.num_prompts_per_step, self.admission.max_age
        last = [begun.version for begun in self.running.values() if self._tries_of(begun) >= self._max_retries]
        for more in range(max_age if last else 0):
            oldest = self.step + more - max_age
            running = sum(version <= oldest for version in last)
            ended = self.waiting.count_up_to(oldest)
            if running and running + max(0, ended - prompts) > more * prompts:
                return True
        return False

    def _tries_of(self, group: Group | Begun) -> int:
        return self._tries.get(group.id, 0)

    def _try_again(self, group: Group | Begun, why: Why) -> Lost:
        tries = self._tries.pop(group.id, 0)
        if tries >= self._max_retries:
            return self._lose(group, why)
        self.again.append(Again(group.row, group.epoch, tries + 1))
        self.n_again += 1
        return self._lose(group, why)._replace(again=True)

    def _lose(self, group: Group | Begun, why: Why) -> Lost:
        self.lost[why] += 1
        return Lost(id=group.id, row=group.row, epoch=group.epoch, why=why)
