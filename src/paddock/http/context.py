"""The context of a call: request id, deadline, the rollout's secret. Never part of a record.

Over HTTP the three are headers (`X-Request-Id`, `X-Paddock-Timeout-S`, `X-Paddock-Rollout`); directly they are this
object. The deadline is kept on the monotonic clock and sent as the seconds that remain.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from paddock.types.responses import new_id

REQUEST_ID = "x-request-id"
TIMEOUT = "x-paddock-timeout-s"
ROLLOUT = "x-paddock-rollout"
API_KEY = "x-api-key"
SECRET_PREFIX = "ro_"
"""How a rollout's secret begins."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call's context."""

    request_id: str = field(default_factory=lambda: new_id("req"))
    """The same for every replay of one call."""
    deadline: float | None = None
    """`time.monotonic()` second after which nobody waits for the answer; None: the callee's own limit."""
    rollout_secret: str | None = field(default=None, repr=False)
    """Names the rollout at the model server; only a collector sets it, on `/run`."""
    path: Mapping[str, str] = field(default_factory=dict)
    """Values of the route's path parameters."""
    bearer: str | None = field(default=None, repr=False)
    """The API key that the caller brought; over HTTP the bearer of `Authorization`, or `X-Api-Key`, of two the one that
    is a rollout's secret."""

    @property
    def remaining_s(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def within(self, timeout_s: float) -> "Call":
        """This call, with a deadline at most `timeout_s` seconds from now."""
        own = time.monotonic() + timeout_s
        deadline = own if self.deadline is None else min(own, self.deadline)
        return Call(self.request_id, deadline, self.rollout_secret, self.path, self.bearer)

    def at(self, path: Mapping[str, str]) -> "Call":
        """This call, with values of path parameters."""
        return Call(self.request_id, self.deadline, self.rollout_secret, path, self.bearer)

    def to_headers(self) -> dict[str, str]:
        headers = {REQUEST_ID: self.request_id}
        remaining = self.remaining_s
        if remaining is not None:
            headers[TIMEOUT] = f"{remaining:.3f}"
        if self.rollout_secret is not None:
            headers[ROLLOUT] = self.rollout_secret
        return headers

    @classmethod
    def from_headers(cls, headers: Mapping[str, Any], path: Mapping[str, str]) -> "Call":
        """An unreadable timeout counts as none; a missing request id is made."""
        deadline: float | None = None
        if TIMEOUT in headers:
            with suppress(ValueError):
                deadline = time.monotonic() + float(headers[TIMEOUT])
        scheme, _, bearer = str(headers.get("authorization") or "").partition(" ")
        authorized = bearer if scheme.lower() == "bearer" else ""
        key = str(headers.get(API_KEY) or "")
        if key.startswith(SECRET_PREFIX) and not authorized.startswith(SECRET_PREFIX):
            authorized = key
        return cls(
            headers.get(REQUEST_ID) or new_id("req"), deadline, headers.get(ROLLOUT), path, authorized or key or None
        )


def rollout_of(call: Call) -> str | None:
    """The secret of the rollout that a call of a model belongs to: the one in its base URL (`/r/<secret>/v1/...`), else
    an API key that has a secret's form. None: it belongs to none, and is not recorded."""
    named = call.path.get("secret")
    if named:
        return named
    return call.bearer if call.bearer and call.bearer.startswith(SECRET_PREFIX) else None
