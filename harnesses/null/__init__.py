"""The null harness: does nothing, and says so. An empty patch is given no run of tests (`no_patch`), so what it is paid
is what doing nothing is worth, and says nothing about the tests: `noop` has them run without a fix."""

from paddock.harnesses.null.harness import NullHarness

__all__ = ["NullHarness"]
