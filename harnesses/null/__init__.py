"""The null harness: does nothing, and says so. What it is paid is what doing nothing is worth."""

from paddock.harnesses.null.harness import NullHarness

__all__ = ["NullHarness"]
