"""Rows of different lengths into micro-batches and over processes: which go together.

Law     each row is in one pack. A row that is longer than the capacity is alone in its own. The same lengths give the
        same packs.
Source  first-fit decreasing: at most 11/9 of the best possible number of packs, and 1 (Johnson 1973).
"""

from collections.abc import Sequence


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


def padded_packs(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """As `packs`, of rows that are padded to the longest of their pack, with padding counted: longest first, as many
    in each as fit."""
    rows_by_pack: list[list[int]] = []
    for nth in sorted(range(len(lengths)), key=lambda nth: (-lengths[nth], nth)):
        if rows_by_pack and (len(rows_by_pack[-1]) + 1) * lengths[rows_by_pack[-1][0]] <= capacity:
            rows_by_pack[-1].append(nth)
        else:
            rows_by_pack.append([nth])
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
