"""Even shares of what all workers together have in flight."""

from collections.abc import Sequence
from typing import Protocol


class Load(Protocol):
    """What a worker has in flight."""

    n_running: int

    @property
    def slots(self) -> int:
        """How many it may have."""
        ...


def has_room(load: Load, loads: Sequence[Load], at_once: int) -> bool:
    """Whether the worker of a load may be given one more, where those of all `loads` have `at_once`. One that joins
    gets its share as what the others run ends."""
    share = -(-at_once // len(loads))
    return load.n_running < min(load.slots, share) and sum(other.n_running for other in loads) < at_once
