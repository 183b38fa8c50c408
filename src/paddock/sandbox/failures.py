"""A sandbox's own failures: never a command's output, never an exit code.

    InfraError
    └── SandboxError         the machine's: it did not start, it died, the host is full; retried
        ├── SandboxGone      no such sandbox, any more or ever
        ├── RuntimeMissing   no runtime works here: the message says which were tried, why not, and what to install
        └── ImageDamaged     the store has lost a part of an image: it has to be made again
    BudgetExceeded           the policy's: the whole sandbox was killed because it used up its own budget
    SandboxRequestError      a request that no sandbox can serve: bad path, unknown image
    ImageMissing             the row's: no such image in the store, or in the registry
    ImageInvalid             the row's: what is called an image is none, or not the one that its digest says

`BudgetExceeded` is no failure of a rollout: an agent that meets it ends `truncated`, with what was there.
A SandboxError that is `doubtful` may be the policy's doing: see `ends`.
"""

from typing import Literal

from paddock.errors import InfraError, RequestError, RowError

Budget = Literal["memory", "disk", "cpu", "pids"]


class SandboxError(InfraError):
    """The sandbox, not what ran in it."""


class SandboxGone(SandboxError):
    """It is not there."""

    def __init__(self, sandbox_id: str, detail: str = "", *, doubtful: bool = False) -> None:
        text = f"sandbox {sandbox_id} is gone{': ' + detail if detail else ''}"
        super().__init__(text, kind="sandbox_gone", doubtful=doubtful)


class RuntimeMissing(SandboxError):
    """Nothing here can isolate; not retried."""

    retryable_by_default = False


class ImageDamaged(SandboxError):
    """The record or a layer of an image can't be used; not retried."""

    retryable_by_default = False


class ImageMissing(RowError):
    """No image of that name."""


class ImageInvalid(RowError):
    """What should be an image can't be made one: malformed, unsafe, for another machine, not what its digest says."""


class SandboxRequestError(RequestError):
    """The caller asked for what can't be."""


class BudgetExceeded(Exception):
    """The sandbox was killed: what ran in it used up its budget."""

    def __init__(self, budget: Budget, message: str) -> None:
        super().__init__(message)
        self.budget = budget
        self.message = message
