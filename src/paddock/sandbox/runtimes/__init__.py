"""The runtimes: what each needs on its command line, and whether it is there."""

from paddock.sandbox.runtimes.bubblewrap import Bubblewrap
from paddock.sandbox.runtimes.runtime import Runtime

__all__ = ["Bubblewrap", "Runtime"]
