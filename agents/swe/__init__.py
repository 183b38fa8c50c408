"""The SWE agent: a harness in a sandbox, its patch, a verdict."""

from paddock.agents.swe.server import SweAgent

__all__ = ["SweAgent"]
