"""Loans of a live sandbox from the server that made it to another server of the same process, without a copy.

Handle  a secret that is made for one loan; whoever has it may act in the sandbox. It is worth nothing once the lender
        has ended the loan, and the lender destroys the sandbox.
Errors  SandboxError `sandbox_elsewhere` for a handle that this process has lent nothing by.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from paddock.sandbox.failures import Budget, SandboxError
from paddock.sandbox.protocol import Provider
from paddock.sandbox.records import SandboxLimits, Stats


class SandboxLoan(NamedTuple):
    """A sandbox of somebody else: its borrower acts in it and does not destroy it."""

    provider: Provider
    sandbox_id: str
    limits: SandboxLimits
    """Its budgets."""


_loans: dict[str, SandboxLoan] = {}


@contextmanager
def lend(provider: Provider, sandbox_id: str, limits: SandboxLimits) -> Iterator[str]:
    """Lend a sandbox for the block; yields its handle."""
    handle = secrets.token_urlsafe(24)
    _loans[handle] = SandboxLoan(provider, sandbox_id, limits)
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


def share_used(budget: Budget, stats: Stats, limits: SandboxLimits) -> float:
    """Return how much of a budget is used, from 0 to 1; 0: it has no limit."""
    budgets: dict[Budget, list[tuple[float, float | None]]] = {
        "memory": [(stats.memory_mib, limits.memory_mib)],
        "disk": [(stats.disk_mib, limits.disk_mib), (stats.disk_files, limits.disk_files)],
        "cpu": [(stats.cpu_s, limits.cpu_s)],
        "pids": [(stats.pids, limits.pids)],
    }
    return max(used / limit if limit else 0.0 for used, limit in budgets[budget])
