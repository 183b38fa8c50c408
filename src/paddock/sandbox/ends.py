"""How a sandbox ended, and who caused it: from what the kernel says of it, not from what runs inside.

Reach   nothing inside can signal, trace or name a keeper, a runtime or the first process (`keeper.pid1`). So a signal
        that somebody has to send came from outside. Faults and exits of their own come of nothing that a machine does
        by itself: a hole would look like that.

        | evidence                                                           | who caused it, how it is reported     |
        |--------------------------------------------------------------------|---------------------------------------|
        | the watchdog found a budget used up                                | policy's: BudgetExceeded              |
        | the first process was killed as the kernel killed in its cgroup,   | policy's: BudgetExceeded `memory`     |
        | which was at its limit                                             |                                       |
        | a command was stopped from inside before it was its own            | policy's: it ends with 126            |
        | the watchdog found the machine short of memory or disk             | machine's                             |
        | the kernel killed in its cgroup, which was below its limit         | machine's                             |
        | a signal that is sent ended the first process or the keeper        | machine's                             |
        | the keeper is stopped; this process lacks what it needs to listen  | machine's                             |
        | the first process or the keeper ended otherwise, or nobody knows   | doubt                                 |
        | the keeper failed, does not answer, or can't be believed           | doubt                                 |
        | a command could not become its own; one that is dead has no end    | doubt                                 |

Doubt   `InfraError.doubtful`: the failure is the machine's once; the second of a rollout counts as the policy's.
"""

import signal
from typing import Literal, NamedTuple

How = Literal["closed", "died", "lost", "failed", "hangs", "stopped", "untrusted", "unreachable"]
"""`closed`: it was ended from here. `died`: its first process ended. Else its keeper: `lost` ended without a message,
`failed` reported what failed, `hangs` does not answer, `stopped` was stopped by a signal, `untrusted` sent what can't
be true, `unreachable` can't be talked to for what this process lacks."""
SENT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)
"""Signals that no fault raises: somebody has to send them."""
_SHELL_SIGNALS = range(129, 193)


class End(NamedTuple):
    """What is known of a sandbox that can't be used any more."""

    how: How
    why: str
    """The cause, as text for people."""
    status: int | None = None
    """Of the first process where it `died`, of the keeper where that was `lost`: exit code, or minus the number of the
    signal that ended it. None: not known."""

    @property
    def signal(self) -> int | None:
        """The signal that ended it; None: none, or unknown. A runtime reports signal n as exit code 128 + n."""
        if self.status is None:
            return None
        number = self.status - 128 if self.status in _SHELL_SIGNALS else -self.status
        return number if number > 0 else None

    @property
    def doubtful(self) -> bool:
        """Whether it is unknown who caused it, the policy or the machine."""
        if self.how in ("died", "lost"):
            return self.signal not in SENT
        return self.how in ("failed", "hangs", "untrusted")

    def __str__(self) -> str:
        if self.how not in ("died", "lost"):
            return self.why
        if self.signal is not None:
            return f"{self.why} ({signal.strsignal(self.signal) or f'signal {self.signal}'})"
        return self.why if self.status is None else f"{self.why} (exit code {self.status})"
