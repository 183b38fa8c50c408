"""The paths that a tunnel passes on, and its bounds. Bytes and seconds, as the names say."""

from collections.abc import Mapping

from pydantic import Field

from paddock.types import Record

MODEL_PATHS: Mapping[str, str] = {
    "/v1/responses": "POST",
    "/v1/chat/completions": "POST",
    "/v1/messages": "POST",
    "/v1/models": "GET",
}
"""All that passes, with its method."""


class TunnelSettings(Record):
    """Bounds of one tunnel."""

    port: int = Field(default=8765, ge=1, le=65535)
    """Port on the sandbox's loopback; the same in every sandbox, so that prompts and environments are."""
    max_connections: int = Field(default=64, ge=1)
    """Connections that are open at once; one more is answered 503."""
    max_head_bytes: int = Field(default=1 << 16, ge=1024)
    """Bytes of a request's first line and headers, at most."""
    max_body_bytes: int = Field(default=1 << 25, ge=1)
    """Bytes of a request's body, at most."""
    max_held_bytes: int = Field(default=1 << 26, ge=1)
    """Bytes of all open requests together: what a sandbox can make us hold in memory. Beyond it a request is answered
    503."""
    request_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds from a connection to its request's last byte."""
    write_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for a client to take what it is sent, each time."""
    call_timeout_s: float | None = Field(default=None, gt=0)
    """Seconds for one model call; None: as long as the rollout lives."""
