"""What goes wrong, and when. A plan is a function from a call's number (from 0) to its fault, or None."""

import random
from collections.abc import Callable
from typing import Literal, NamedTuple


class ErrorStatus(NamedTuple):
    """An error answer."""

    code: int = 500
    message: str = "scripted failure"
    error_code: str | None = None
    """OpenAI's `error.code`."""
    retry_after_s: float | None = None


Fault = ErrorStatus | Literal["hang", "drop", "half_body", "not_json", "not_an_answer", "engine_error"]
"""`hang`: no byte, for ever. `drop`: the connection closes before an answer. `half_body`: it closes in the middle of
one, of a stream too. `not_json`, `not_an_answer`: status 200 and nonsense. `engine_error`: status 200 and an error."""
Faults = Callable[[int], Fault | None]


def first(count: int, fault: Fault) -> Faults:
    """The first `count` calls fail."""
    return lambda nth: fault if nth < count else None


def share(part: float, fault: Fault, *, seed: int = 0) -> Faults:
    """That share of all calls fails; which ones depends on the seed alone."""
    return lambda nth: fault if random.Random(f"{seed}:{nth}").random() < part else None
