"""The runtimes: what each needs on its command line, and whether it is there."""

from paddock.sandbox.runtimes.apptainer import Apptainer
from paddock.sandbox.runtimes.bubblewrap import Bubblewrap
from paddock.sandbox.runtimes.docker import Docker
from paddock.sandbox.runtimes.podman import Podman
from paddock.sandbox.runtimes.runtime import ContainerRuntime, OverlayRuntime, RuntimeRequest

RUNTIMES: tuple[type[ContainerRuntime], ...] = (Apptainer, Bubblewrap, Podman, Docker)
"""In the order that `auto` tries them."""
QUICKEST: tuple[type[ContainerRuntime], ...] = (Bubblewrap, Apptainer, Podman, Docker)
"""In the order that `quickest` tries them: the sooner a sandbox of it has started, the earlier."""

__all__ = [
    "QUICKEST",
    "RUNTIMES",
    "Apptainer",
    "Bubblewrap",
    "ContainerRuntime",
    "Docker",
    "OverlayRuntime",
    "Podman",
    "RuntimeRequest",
]
