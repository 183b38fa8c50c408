"""What a parent hands a server's process, and what the process tells it: JSON lines over one socket, its stdin.

Order   parent: `Handover`; child: `prepared` once all that can fail has been done; parent: `go`, when every child is
        prepared; child: `ready` when it serves. Any time before, the child may say `error` and end.
Law     the end of the parent's side means: stop. It comes also when the parent is killed, so no child outlives it.
Secrets the token and the config travel here alone: never in argv, a file or the environment. The config is as it was
        composed: the child reads the environment itself.
"""

from typing import Literal, Self

from pydantic import Field

from paddock.errors import ConfigError, InfraError, PaddockError, from_wire
from paddock.server.settings import RequestLimits
from paddock.types import JsonObject, Record

GO = b"go\n"


class Handover(Record):
    """Everything that a child is given to run its server."""

    name: str
    """Name of the instance that the child runs."""
    config: str
    """The composed config, unresolved."""
    listen_fd: int
    """The inherited listening socket."""
    peers: dict[str, str]
    """URL per instance of the runtime, itself included."""
    token: str | None = Field(default=None, repr=False)
    """What it asks of callers and brings to peers."""
    token_is_made: bool = False
    """The token was made at the runtime's start, not configured."""
    python: str | None = None
    """Its interpreter; None: the parent's."""
    path: list[str]
    """Of the parent's `sys.path`, what it may use: the same plugins are found."""
    start_timeout_s: float
    stop_timeout_s: float
    requests: RequestLimits
    """Limits of its callers' requests."""

    def line(self) -> bytes:
        return self.model_dump_json().encode() + b"\n"


class Status(Record):
    """One message of a child."""

    event: Literal["prepared", "ready", "error"]
    error: JsonObject | None = None
    """The error on the wire; only with `error`."""
    is_config: bool = False
    """The error is the config's."""

    @classmethod
    def of(cls, error: PaddockError) -> Self:
        return cls(event="error", error=error.to_wire(), is_config=isinstance(error, ConfigError))

    def line(self) -> bytes:
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"

    def to_error(self, name: str) -> PaddockError:
        """The error that the message holds, as one of this process."""
        error = from_wire(500, self.error)
        message = error.message if error.message.startswith(f"{name}: ") else f"{name}: {error.message}"
        if self.is_config:
            return ConfigError(message, kind=error.kind)
        return InfraError(message, kind=error.kind, retryable=False)
