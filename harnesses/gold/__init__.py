"""The gold harness: applies the row's known fix. A row that it is not paid for is wrong."""

from paddock.harnesses.gold.harness import GoldHarness

__all__ = ["GoldHarness"]
