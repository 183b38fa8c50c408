"""Loans of a live sandbox from the server that made it to another server of the same process, without a copy.

Handle  a secret that is made for one loan; whoever has it may act in the sandbox. It is worth nothing once the lender
        has ended the loan, and the lender destroys the sandbox.
Errors  SandboxError `sandbox_elsewhere` for a handle that this process has lent nothing by.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from paddock.sandbox.failures import SandboxError
from paddock.sandbox.protocol import Provider


class SandboxLoan(NamedTuple):
    """A sandbox of somebody else: its borrower acts in it and does not destroy it."""

    provider: Provider
    sandbox_id: str


_loans: dict[str, SandboxLoan] = {}


@contextmanager
def lend(provider: Provider, sandbox_id: str) -> Iterator[str]:
    """Lend a sandbox for the block; yields its handle."""
    handle = secrets.token_urlsafe(24)
    _loans[handle] = SandboxLoan(provider, sandbox_id)
    try:
        yield handle
    finally:
        del _loans[handle]


def borrow(handle: str) -> SandboxLoan:
    """Return what a handle stands for."""
    loan = _loans.get(handle)
    if loan is None:
        raise SandboxError(
            "the rollout's sandbox belongs to another process: a server that judges by the sandbox itself runs in its "
            "agent's process (no --isolate, no `python` of its own), or is given artifacts alone",
            kind="sandbox_elsewhere",
            retryable=False,
        )
    return loan
