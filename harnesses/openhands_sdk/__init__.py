"""The OpenHands SDK itself, outside of the sandbox; its terminal and its editor act inside."""

from paddock.harnesses.openhands_sdk.harness import OpenHandsSdkHarness

__all__ = ["OpenHandsSdkHarness"]
