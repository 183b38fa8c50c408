"""The rows that NeMo-RL sends, as members of groups.

Source  NVIDIA-NeMo/RL, `nemo_rl/experience/rollouts.py` (`_prepare_nemo_gym_rows`): copies of one row stand together;
        `_rowidx` numbers them; the asynchronous collector gives a group its `_ng_task_index`, the other callers none.
Law     neighbours with one `_ng_task_index`, or where there is none with the same content, are a group: member 0, 1,
        ... of so many. Random choices for a row depend on its index or content, so all its members share them.
        Each call makes new groups: members that are sent again do not meet those that were sent before.
Errors  a row that can't run is a group with its RowError.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from paddock.collect import PlannedGroup
from paddock.collect.routing import Router
from paddock.rollouts.planned_rows import group_stamp, planned_group
from paddock.types import JsonObject

ROW_INDEX = "_rowidx"
TASK_INDEX = "_ng_task_index"


class MemberRequest(NamedTuple):
    """One rollout that the trainer asks for."""

    given: JsonObject
    """The trainer's own row."""
    group: PlannedGroup
    member: int


def member_requests(rows: Sequence[JsonObject], router: Router, *, run_id: str) -> list[MemberRequest]:
    """One request for each row, in order."""
    requests: list[MemberRequest] = []
    for members in _groups(rows):
        stamp = group_stamp(run_id, len(members))
        for nth, row in enumerate(members):
            wire = {**_bare(row), **stamp, "_ng_rollout_index": nth}
            index = wire.get(TASK_INDEX)
            number = index if isinstance(index, int) else len(requests)
            requests.append(MemberRequest(row, planned_group(wire, router, number=number, size=len(members)), nth))
    return requests


def _groups(rows: Sequence[JsonObject]) -> Iterator[list[JsonObject]]:
    current: list[JsonObject] = []
    for row in rows:
        if current and not _same_group(current[0], row):
            yield current
            current = []
        current.append(row)
    if current:
        yield current


def _same_group(first: JsonObject, row: JsonObject) -> bool:
    index = first.get(TASK_INDEX)
    if index is not None or row.get(TASK_INDEX) is not None:
        return bool(index == row.get(TASK_INDEX))
    return _bare(first) == _bare(row)


def _bare(row: JsonObject) -> JsonObject:
    return {key: value for key, value in row.items() if key != ROW_INDEX}
