"""Samples of inspect_ai tasks, run and scored by inspect_ai itself."""

from paddock.agents.inspect_ai.server import InspectAgent

__all__ = ["InspectAgent"]
