"""What a node says of its room, and the refusal of a sandbox for which it has none.

Law     the node decides: what a client knows of its room is as old as its last answer, and only says where to ask.
Units   those of `paddock.sandbox.admission`.
"""

import math

from paddock.sandbox.admission import AdmissionSettings, Capacity, describe
from paddock.sandbox.failures import SandboxError
from paddock.types import Record


class FreeRoom(Record):
    """A `Capacity` as JSON has it: None is not bounded."""

    memory_mib: float
    cores: float
    disk_mib: float | None
    sandboxes: float | None

    @staticmethod
    def of(amount: Capacity) -> "FreeRoom":
        return FreeRoom(**{name: None if math.isinf(part) else part for name, part in amount._asdict().items()})

    @property
    def amount(self) -> Capacity:
        return Capacity(*(math.inf if part is None else part for part in self.model_dump().values()))


class NodeRoom(Record):
    """The room of a node."""

    admission: AdmissionSettings
    """All there is, in numbers, and what one sandbox is counted as."""
    free: FreeRoom
    """What is granted to nobody."""
    waiting: int = 0
    """Sandboxes for which its clients said that they wait for room."""
    draining: bool = False
    """It takes no more."""
    fetches_images: bool = False
    """It asks its peers for an image that it lacks."""

    def refusal(self) -> str:
        if self.draining:
            return "this node is draining: it takes no more sandboxes"
        return f"this node is full: {describe(self.free.amount)} are free; {self.waiting} wait"


class NodeFullError(SandboxError):
    """A node has no room for a sandbox at this moment."""

    status = 409

    def __init__(self, room: NodeRoom, message: str | None = None) -> None:
        super().__init__(message or room.refusal(), kind="node_draining" if room.draining else "node_full")
        self.room = room


class NodeStatus(Record):
    """The answer to `GET /status`."""

    version: str
    runtime: str
    up_s: float
    """Seconds since its start."""
    leases: int
    """Clients that hold it."""
    sandboxes: int
    room: NodeRoom
    images: int
    images_mark: str
    """Another word once the node has another image."""
    free_memory_mib: int
    """MiB of memory that the machine itself has left."""
    free_disk_mib: int
    """MiB that are left on the disk of its sandboxes."""


class ImageNames(Record):
    """The answer to `GET /images`."""

    names: list[str]
