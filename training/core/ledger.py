"""The ledger of a run: which groups run, wait for their step, were trained on, or were lost, and why.

Law     each group that was started is in exactly one of these states, whatever happens; none is counted twice, none
        disappears. What is stored (`to_wire`, and `waiting` beside it) is the whole ledger: one made from it goes on
        as this one does, with the groups that ran started again under their ids.
Order   rows are taken in `RowOrder`'s order; which groups a step trains on, `age_policies` say.
Retries a row whose group was lost, for its age, for failures that were no fault of the row or the policy, or because
        its members ran beyond their budget, is started again before any other row, `max_retries` times in all.
Errors  ConfigError when the stored ledger is of a dataset of another length.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal, NamedTuple, Self, get_args

from paddock.errors import ConfigError
from paddock.training.core.admission import GroupAdmission, RunningGroup
from paddock.training.core.age_policies import age_policy
from paddock.training.core.buffer import ReplayBuffer, WaitingGroup
from paddock.training.core.order import RowOrder
from paddock.training.core.records import Group
from paddock.training.core.settings import GroupSettings, GrpoSettings
from paddock.types import RETRIED, REWARDED, JsonObject, Outcome

LostReason = Literal["slow", "too_old", "dropped", "no_advantage"]
"""Why a group is lost. `slow`: it still ran when no later step could take it; `too_old`: it had ended, and was too old;
`dropped`: too few of its members had a verdict; `no_advantage`: it teaches nothing, and dynamic sampling is on."""

_MAY_HELP: frozenset[Outcome] = RETRIED | {"cancelled"}
"""Outcomes of members after which another group of the row may have more verdicts."""


class RowRetry(NamedTuple):
    """A row that has to be run again, because its groups so far were lost."""

    row: int
    epoch: int
    tries: int
    """How many groups of the row were lost so far."""


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
    reward: float | None = None
    """The mean reward of its members; None: none had one, or it was not looked at."""


class Ledger:
    """The ledger of one run. `step` is the step to train next, `version` that of the newest weights that were sent."""

    def __init__(self, grpo: GrpoSettings, order: RowOrder, groups: GroupSettings | None = None) -> None:
        """`groups` None stands for the default settings."""
        groups = groups or GroupSettings()
        self._max_retries = groups.max_retries
        self.admission = GroupAdmission(grpo.num_prompts_per_step, grpo.max_age)
        self._policy = age_policy(self.admission, groups)
        self.order = order
        self.step = 0
        self.version = 0
        self.n_started = 0
        """How many groups were started; the id of the next one."""
        self.n_trained = 0
        self.n_skipped = 0
        """How many groups without advantage ended since the last step took its groups."""
        self._max_skipped = 0
        if grpo.use_dynamic_sampling:
            self._max_skipped = (grpo.dynamic_sampling_max_gen_batches - 1) * grpo.num_prompts_per_step
        self.n_late = 0
        """How many of these were older than `max_age`."""
        self.running: dict[int, RunningGroup] = {}
        self.waiting = ReplayBuffer()
        self.lost: dict[LostReason, int] = dict.fromkeys(get_args(LostReason), 0)
        """How many groups were lost, by reason."""
        self.retries: deque[RowRetry] = deque()
        self.n_retries = 0
        """How many of the lost groups had their row queued again."""
        self._training: list[int] = []

    @property
    def n_alive(self) -> int:
        """How many groups run, wait or are being trained on."""
        return len(self.running) + len(self.waiting) + len(self._training)

    @property
    def starved(self) -> bool:
        """Whether the rows are used up, and what is left is too little for another step."""
        n_left = len(self.running) + len(self.waiting)
        # A group that runs may bring back a row that the curriculum leaves out.
        no_rows = self.order.at_end or (not self.running and not self.order.has_rows)
        return no_rows and not self.retries and n_left < self.admission.num_prompts_per_step

    @property
    def ready(self) -> bool:
        """Whether `step` has its groups, and none that it must wait for still runs."""
        return self._chosen() is not None

    @property
    def may_skip(self) -> bool:
        """Whether a group without advantage need not be trained on: dynamic sampling is on, and not at its bound."""
        return self.n_skipped < self._max_skipped

    def begin(self) -> RunningGroup | None:
        """Start the next group; None when none may start now, or no row is left."""
        if not self.admission.room(step=self.step, version=self.version, alive=self.n_alive):
            return None
        row = self.retries.popleft() if self.retries else self.order.take()
        if row is None:
            return None
        tries = row.tries if isinstance(row, RowRetry) else 0
        group = RunningGroup(self.n_started, row.row, row.epoch, self.version, tries)
        self.n_started += 1
        self.running[group.id] = group
        return group

    def end(self, group: Group) -> None:
        """Move a running group that has ended to those that wait for their step."""
        self._measure(group)
        self.waiting.put(group, self.running.pop(group.id).tries)

    def drop(self, group: Group) -> LostGroup:
        """Count a running group that has ended, and can't be trained on, as lost."""
        running = self.running.pop(group.id)
        may_help = not group.members or any(member.outcome in _MAY_HELP for member in group.members)
        tries = running.tries if may_help else self._max_retries
        return self._lose(running, "dropped", tries)._replace(seconds=group.seconds)

    def skip(self, group: Group) -> LostGroup:
        """Count a running group that has ended, and teaches nothing, as lost; its row is not run again."""
        self.n_skipped += 1
        self._measure(group)
        lost = self._lose(self.running.pop(group.id), "no_advantage", self._max_retries)
        rewards = [member.reward for member in group.members if member.reward is not None]
        return lost._replace(seconds=group.seconds, reward=fmean(rewards) if rewards else None)

    def give_up(self) -> list[LostGroup]:
        """Count every group that `step` can no longer train on as lost; the caller ends those that still run."""
        slow = [group for group in self.running.values() if not self._policy.usable(group.version, self.step)]
        for group in slow:
            del self.running[group.id]
        lost = [self._lose(group, "slow", group.tries) for group in slow]
        old = [each for each in self.waiting.waiting if not self._policy.usable(each.oldest_version, self.step)]
        self.waiting.take(old)
        return lost + [
            self._lose(each.group, "too_old", each.tries)._replace(seconds=each.group.seconds) for each in old
        ]

    def take(self) -> list[Group] | None:
        """Take the groups to train on in `step`; None while it is not `ready`."""
        chosen = self._chosen()
        if chosen is None:
            return None
        self._training = [group.id for group in chosen]
        self.n_skipped = 0
        self.n_late += sum(not self.admission.usable(group.oldest_version, self.step) for group in chosen)
        return self.waiting.take(chosen)

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
            "n_late": self.n_late,
            "n_skipped": self.n_skipped,
            "running": [group._asdict() for group in self.running.values()],
            "lost": dict(self.lost),
            "retries": [retry._asdict() for retry in self.retries],
            "n_retries": self.n_retries,
            "tries": [(group.id, group.tries) for group in self.waiting.waiting if group.tries],
            "n_rows": self.order.n_rows,
            "epoch": self.order.epoch,
            "position": self.order.position,
            "order": self.order.to_wire(),
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
        order.restore(wire.get("order", {}))
        ledger = cls(grpo, order, groups)
        ledger.step = ledger.version = wire["step"]
        ledger.n_started, ledger.n_trained = wire["n_started"], wire["n_trained"]
        ledger.n_late, ledger.n_skipped = wire.get("n_late", 0), wire.get("n_skipped", 0)
        tries = dict(wire["tries"])
        for fields in wire["running"]:
            # The version before wrote the tries of groups that ran beside those of groups that waited.
            group = RunningGroup(**{"tries": tries.get(fields["id"], 0), **fields, "version": ledger.version})
            ledger.running[group.id] = group
        ledger.waiting = ReplayBuffer(waiting, tries)
        ledger.lost.update(wire["lost"])
        ledger.retries.extend(RowRetry(**fields) for fields in wire["retries"])
        ledger.n_retries = wire["n_retries"]
        return ledger

    def _chosen(self) -> Sequence[WaitingGroup] | None:
        usable = [group for group in self.waiting.waiting if self._policy.usable(group.oldest_version, self.step)]
        return self._policy.choose(self.step, self.running.values(), usable)

    def _measure(self, group: Group) -> None:
        rewards = [member.reward for member in group.members if member.outcome in REWARDED]
        known = [reward for reward in rewards if reward is not None]
        if self.order.curriculum is not None and known:
            self.order.curriculum.measure(group.row, fmean(known))

    def _lose(self, group: Group | RunningGroup, why: LostReason, tries: int) -> LostGroup:
        """`tries`: how many groups of its row were lost before it."""
        self.lost[why] += 1
        again = tries < self._max_retries
        if again:
            self.retries.append(RowRetry(group.row, group.epoch, tries + 1))
            self.n_retries += 1
        return LostGroup(group.id, group.row, group.epoch, why, again)
