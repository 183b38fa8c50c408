"""What serving may be told: the `serve` block of a config.

Units   seconds as float.
Errors  ConfigError: a bad block.
"""

from pydantic import BaseModel, ConfigDict, Field

from paddock.config import Config, validate


class RequestLimits(BaseModel):
    """What a request may take of a server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_body_mib: int = Field(default=256, ge=1)
    """Largest body of a request, in MiB; a larger one is refused (413)."""
    stall_timeout_s: float = Field(default=120.0, gt=0)
    """Time without another byte of a request that is not there as a whole, headers included; then it is refused (408),
    and its connection closed."""


DEFAULT_LIMITS = RequestLimits()


class ServeSettings(RequestLimits):
    """How servers are started, restarted and stopped, and what a request may take of them."""

    max_restarts: int = Field(default=20, ge=0)
    """How often one isolated server that died is started again, in all, or one worker of `paddock eval`; then the
    runtime has failed."""
    restart_wait_s: float = Field(default=0.5, ge=0)
    """Wait before the first restart; twice as long before each further one of the same process, at most 60 s."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds for all servers to become ready."""
    stop_timeout_s: float = Field(default=2.0, gt=0)
    """Seconds for all servers to stop; what is left then is killed."""
    token_file: str | None = None
    """File that holds the token; None: the variable PADDOCK_TOKEN, else see `loopback_token`."""
    loopback_token: bool = True
    """Where no token is configured, servers on loopback ask for one that is made at their start, which clients of the
    same user find. False: for clients of other suites, on a machine with one user; every process there may call, but
    for those in sandboxes."""


def serve_settings(config: Config) -> ServeSettings:
    """The `serve` block of a config."""
    return validate(ServeSettings, config.top("serve"), "serve")
