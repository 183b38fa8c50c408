"""OpenCode itself, in the sandbox."""

from paddock.harnesses.opencode_cli.harness import OpenCodeCliHarness

__all__ = ["OpenCodeCliHarness"]
