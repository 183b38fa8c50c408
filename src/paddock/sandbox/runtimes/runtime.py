"""What a runtime is to a keeper: a command that runs `/bin/sh` over an overlay which the keeper has mounted.

Law     the command is started as the payload's user, as uid 0 of a user namespace without rights over the host, in pid,
        mount, network, IPC and UTS namespaces of its own. The runtime makes `/dev` and `/proc`, gives the payload no
        capability, and shows nothing of the host.
"""

from typing import ClassVar, Protocol

from paddock.sandbox.records import RuntimeName, SandboxSpec


class Runtime(Protocol):
    """One way to build a container's view."""

    name: ClassVar[RuntimeName]

    def missing(self) -> str | None:
        """Why it can't be used here, and what would help; None: its program is there."""
        ...

    def command(self, spec: SandboxSpec) -> list[str]:
        """Up to what it is to run; `{merged}` stands for the root file system."""
        ...
