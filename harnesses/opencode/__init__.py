"""The OpenCode harness: opencode's loop and tools without opencode."""

from paddock.harnesses.opencode.harness import OpenCodeHarness

__all__ = ["OpenCodeHarness"]
