"""Rows of different lengths into micro-batches: which go together, and how they lie in one sequence.

Shapes  `laid_out` puts rows one after the other, without padding. `positions` begin anew at 0 with each; a token may
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
    """Indices of the rows of each pack, longest first. `capacity`: tokens of a pack; `max_rows`: None: any number."""
    found: list[list[int]] = []
    room: list[int] = []
    for nth in sorted(range(len(lengths)), key=lambda nth: (-lengths[nth], nth)):
        for at, left in enumerate(room):
            if lengths[nth] <= left and (max_rows is None or len(found[at]) < max_rows):
                found[at].append(nth)
                room[at] -= lengths[nth]
                break
        else:
            found.append([nth])
            room.append(capacity - lengths[nth])
    return found


def shares(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """Rows for each of several processes, about as many tokens for each: the longest first, to whom has least."""
    found: list[list[int]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for nth in sorted(range(len(lengths)), key=lambda nth: (-lengths[nth], nth)):
        at = min(range(parts), key=lambda part: (loads[part], len(found[part]), part))
        found[at].append(nth)
        loads[at] += lengths[nth]
    return found


@dataclass
class Layout:
    """Several rows as one sequence."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Of the rows, in order."""
    trained: list[int] = field(default_factory=list)
    """Indices into `ids` of the tokens that are trained on."""
    rows: list[int] = field(default_factory=list)
    """Of each trained token, which row it is of."""
    engine_log_probs: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)


def laid_out(rows: Sequence[TrainRow]) -> Layout:
    found = Layout()
    for nth, row in enumerate(rows):
        if row.loss_mask and row.loss_mask[0]:
            raise ValueError(f"group {row.group}, member {row.member}: its first token can't be trained on")
        start = len(found.ids)
        trained = [at for at, on in enumerate(row.loss_mask) if on]
        found.ids += row.ids
        found.positions += range(len(row.ids))
        found.lengths.append(len(row.ids))
        found.trained += (start + at for at in trained)
        found.rows += [nth] * len(trained)
        found.engine_log_probs += (row.generation_log_probs[at] for at in trained)
        found.advantages += (row.advantages[at] for at in trained)
    return found
