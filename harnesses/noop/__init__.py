"""The noop harness: adds a file of notes, so that tests are run over a tree that is not fixed. A row that it is paid
for is wrong: its tests do not tell whether the bug is there."""

from paddock.harnesses.noop.harness import NoopHarness

__all__ = ["NoopHarness"]
