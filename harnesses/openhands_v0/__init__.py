"""OpenHands' CodeActAgent itself, outside of the sandbox; its runtime acts inside."""

from paddock.harnesses.openhands_v0.harness import OpenHandsV0Harness

__all__ = ["OpenHandsV0Harness"]
