"""Numbers for the members of a group, where verl gives none.

Law     the samples of a group (`uid`) are numbered in the order in which this process is given them.
"""

MAX_OPEN_GROUPS = 10_000
"""Groups that are numbered at once; the oldest is forgotten first, as one whose members went to other processes."""
_counts: dict[str, int] = {}


def member_number(group: object, size: int) -> int:
    """The number of the next member of a group of `size`; 0 where the group has no name."""
    if group is None or size < 2:
        return 0
    number = _counts.pop(str(group), 0)
    if number + 1 < size:
        _counts[str(group)] = number + 1
    while len(_counts) > MAX_OPEN_GROUPS:
        del _counts[next(iter(_counts))]
    return number
