"""Rows of different lengths into micro-batches: which go together, and how they lie in one sequence.

Shapes  `pack_rows` puts rows one after the other, without padding. `positions` begin anew at 0 with each; a token may
        attend to earlier tokens of its own row alone. Per-token fields of `trained` are over the trained tokens, in
        order; the log-prob of the token at flat index `i` is read from the logits at `i - 1`.
Law     each row is in one pack. A row that is longer than the capacity is alone in its own. The same lengths give the
        same packs.
Source  first-fit decreasing: at most 11/9 of the best possible number of packs, and 1 (Johnson 1973).
Errors  ValueError for a row of which the first token is trained on: nothing stands before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from paddock.training.core.records import TrainRow


def packs(lengths: Sequence[int], capacity: int, max_rows: int | None = None) -> list[list[int]]:
    """The indices of the rows of each pack, longest first. `lengths` and `capacity` are in tokens; `max_rows` None: a
    pack may have any number of rows."""
    rows_by_pack: list[list[int]] = []
    room: list[int] = []
    for nth in sorted(range(len(lengths)), key=lambda nth: (-lengths[nth], nth)):
        for at, left in enumerate(room):
            if lengths[nth] <= left and (max_rows is None or len(rows_by_pack[at]) < max_rows):
                rows_by_pack[at].append(nth)
                room[at] -= lengths[nth]
                break
        else:
            rows_by_pack.append([nth])
            room.append(capacity - lengths[nth])
    return rows_by_pack


def shares(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """The indices of the rows of each of `parts` processes, with about as many tokens each: rows are dealt longest
    first, each to the process that has the fewest tokens."""
    rows_by_part: list[list[int]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for nth in sorted(range(len(lengths)), key=lambda nth: (-lengths[nth], nth)):
        at = min(range(parts), key=lambda part: (loads[part], len(rows_by_part[part]), part))
        rows_by_part[at].append(nth)
        loads[at] += lengths[nth]
    return rows_by_part


@dataclass
class PackedRows:
    """Several rows as one sequence: per-token fields have one entry per id, or per trained token."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """The length of each row, in order."""
    trained: list[int] = field(default_factory=list)
    """Indices into `ids` of the tokens that are trained on."""
    rows: list[int] = field(default_factory=list)
    """For each trained token the index of its row."""
    engine_log_probs: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)


def pack_rows(rows: Sequence[TrainRow]) -> PackedRows:
    """The rows one after the other. ValueError for one whose first token is trained on."""
    packed = PackedRows()
    for nth, row in enumerate(rows):
        if row.loss_mask and row.loss_mask[0]:
            raise ValueError(f"group {row.group}, member {row.member}: its first token can't be trained on")
        start = len(packed.ids)
        trained = [at for at, on in enumerate(row.loss_mask) if on]
        packed.ids += row.ids
        packed.positions += range(len(row.ids))
        packed.lengths.append(len(row.ids))
        packed.trained += (start + at for at in trained)
        packed.rows += [nth] * len(trained)
        packed.engine_log_probs += (row.generation_log_probs[at] for at in trained)
        packed.advantages += (row.advantages[at] for at in trained)
    return packed
