"""Errors have an owner; the owner decides the outcome. Plugins raise plain errors, `boundary` attributes them.

    PaddockError
    ├── RowError        owner row       422  the data is wrong: outcome `row`, dropped and reported
    ├── InfraError      owner infra     503  machine or network: outcome `infra`, retried, then masked
    ├── VerifierError   owner verifier  502  the grader could not judge: outcome `verifier`, retried, then masked
    ├── LeakError       owner policy    409  the policy read what is forbidden: outcome `leak`
    ├── CancelledError owner user      499  shutdown or the run's deadline: outcome `cancelled`, resumed later
    ├── BugError        owner us        500  our own code: outcome `infra`, not retried
    ├── RequestError    owner user      400  a call that no server could answer; no rollout exists yet
    └── ConfigError     owner user      2    (exit code) said before anything starts

A policy's own failure is no error here: it is a verdict. On the wire an error is
`{"error": {"owner", "kind", "message", "stage", "retryable"}}`; `from_wire` rebuilds the class from this module's own
table, never from a name that a peer sends.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ValidationError

from paddock.types import Failure, Outcome, Owner


class PaddockError(Exception):
    """Base. `kind` is a short stable key; `message` says what was wrong, where, and what would be right."""

    owner: ClassVar[Owner]
    status: ClassVar[int]
    outcome: ClassVar[Outcome]
    retryable_by_default: ClassVar[bool] = False

    def __init__(
        self, message: str, *, kind: str = "error", stage: str | None = None, retryable: bool | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.stage = stage
        self.retryable = self.retryable_by_default if retryable is None else retryable

    def failure(self) -> Failure:
        return Failure(
            owner=self.owner, kind=self.kind, message=self.message, stage=self.stage, retryable=self.retryable
        )

    def to_wire(self) -> dict[str, Any]:
        return {"error": self.failure().model_dump()}


class RowError(PaddockError):
    owner, status, outcome = "row", 422, "row"


class InfraError(PaddockError):
    owner, status, outcome = "infra", 503, "infra"
    retryable_by_default = True

    def __init__(
        self,
        message: str,
        *,
        kind: str = "error",
        stage: str | None = None,
        retryable: bool | None = None,
        doubtful: bool = False,
    ) -> None:
        """`doubtful`: the policy may have caused it, and nothing that is known tells (`Failure.doubtful`)."""
        super().__init__(message, kind=kind, stage=stage, retryable=retryable)
        self.doubtful = doubtful


class VerifierError(PaddockError):
    owner, status, outcome = "verifier", 502, "verifier"
    retryable_by_default = True


class LeakError(PaddockError):
    owner, status, outcome = "policy", 409, "leak"


class CancelledError(PaddockError):
    owner, status, outcome = "user", 499, "cancelled"


class BugError(PaddockError):
    owner, status, outcome = "us", 500, "infra"


class RequestError(PaddockError):
    owner, status, outcome = "user", 400, "infra"


class ConfigError(PaddockError):
    """Raised before anything starts; the command prints it and exits 2."""

    owner, status, outcome = "user", 400, "infra"


_ON_THE_WIRE: tuple[type[PaddockError], ...] = (
    RowError,
    InfraError,
    VerifierError,
    LeakError,
    BugError,
    RequestError,
    CancelledError,
)
"""What a peer may have answered with. Of those of one owner the status tells which; the first is any other status's."""


def from_wire(status: int, body: Any) -> PaddockError:
    """The error that a peer answered with; a body that is not ours is judged by its status alone."""
    given = body.get("error") if isinstance(body, Mapping) else None
    error: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    owned = [cls for cls in _ON_THE_WIRE if cls.owner == error.get("owner")]
    if owned:
        cls = next((cls for cls in owned if cls.status == status), owned[0])
        stage = error.get("stage")
        return cls(
            str(error.get("message", "")),
            kind=str(error.get("kind", "error")),
            stage=stage if isinstance(stage, str) else None,
            retryable=bool(error.get("retryable", False)),
        )
    text = f"peer answered {status}: {str(body)[:500]}"
    if status in (408, 425, 429) or status >= 500:
        return InfraError(text, kind="peer_status")
    if status == 422:
        return RowError(text, kind="peer_status")
    return RequestError(text, kind="peer_status")


class boundary:  # noqa: N801 - read as a statement: `with boundary(VerifierError, "verify"):`
    """Plain exceptions that cross become `owner`; one that already has an owner passes, and learns its stage.

    Cancellation and interrupts are no errors and pass untouched.
    """

    __slots__ = ("_owner", "_stage", "_what")

    def __init__(self, owner: type[PaddockError], what: str, *, stage: str | None = None) -> None:
        self._owner = owner
        self._what = what
        self._stage = stage

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, PaddockError):
            error.stage = error.stage or self._stage
        elif isinstance(error, Exception):
            kind = type(error).__name__
            raise self._owner(f"{self._what}: {kind}: {error}", kind=kind, stage=self._stage) from error


def describe(error: ValidationError) -> str:
    """A pydantic error as one line: each place, what was wrong there, and what was given."""
    return "; ".join(
        f"{_key_path(item['loc'])}{item['msg']} (got {_short(item.get('input'))})"
        for item in error.errors(include_url=False)
    )


def _key_path(location: tuple[int | str, ...]) -> str:
    return f"{'.'.join(str(part) for part in location)}: " if location else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
