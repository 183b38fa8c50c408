"""The math server: final answers by math-verify, in processes that may die."""

from paddock.resources_servers.math.server import MathServer

__all__ = ["MathServer"]
