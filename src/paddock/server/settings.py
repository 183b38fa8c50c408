"""What serving may be told: the `serve` block of a config, and the token that servers may ask for.

Units   seconds as float.
Errors  ConfigError: a bad block, a token file that can't be read or holds no usable token.
"""

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from paddock.config import Config, validate
from paddock.errors import ConfigError

TOKEN_VARIABLE = "PADDOCK_TOKEN"


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
    """How often one isolated server that died is started again, in all; then the runtime has failed."""
    restart_wait_s: float = Field(default=0.5, ge=0)
    """Wait before the first restart; twice as long before each further one of the same server, at most 30 s."""
    start_timeout_s: float = Field(default=60.0, gt=0)
    """Time for all servers to become ready."""
    stop_timeout_s: float = Field(default=2.0, gt=0)
    """Time for all servers to stop; what is left then is killed."""
    token_file: str | None = None
    """File that holds the token; None: the variable PADDOCK_TOKEN, else no token."""


def serve_settings(config: Config) -> ServeSettings:
    """The `serve` block of a config."""
    return validate(ServeSettings, config.top("serve"), "serve")


def find_token(token_file: str | Path | None = None) -> str | None:
    """The token of a file, else of the environment; None: there is none."""
    if token_file is None:
        return _checked(os.environ.get(TOKEN_VARIABLE, ""), f"variable {TOKEN_VARIABLE}") or None
    try:
        text = Path(token_file).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise ConfigError(f"token file {token_file}: {reason}", kind="token_invalid") from error
    token = _checked(text.strip(), f"token file {token_file}")
    if not token:
        raise ConfigError(f"token file {token_file}: is empty", kind="token_invalid")
    return token


def _checked(token: str, where: str) -> str:
    if not token.isascii() or any(not 0x21 <= ord(char) <= 0x7E for char in token):
        raise ConfigError(f"{where}: a token is visible ASCII without spaces", kind="token_invalid")
    return token
