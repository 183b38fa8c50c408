"""What a node can say of its machine: its images, and what is left of memory and disk whoever uses it."""

import shutil
from typing import NamedTuple

import psutil

from paddock.sandbox.local import LocalProvider


class MachineFacts(NamedTuple):
    """Facts of one moment."""

    images: int
    images_mark: str
    free_memory_mib: int
    free_disk_mib: int


class NodeHost:
    """The machine of a provider."""

    def __init__(self, provider: LocalProvider) -> None:
        self.runtime: str = provider.runtime.name
        self.store = provider.store

    def look(self) -> MachineFacts:
        """Reads the disk: for a thread."""
        mark = self.store.mark()
        free_memory_mib = psutil.virtual_memory().available >> 20
        return MachineFacts(len(self.store.names()), mark, free_memory_mib, self.free_disk_mib())

    def free_disk_mib(self) -> int:
        return shutil.disk_usage(self.store.home).free >> 20
