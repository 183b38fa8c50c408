"""Many turns of tool calls against an environment that serves the tools."""

from paddock.agents.tools.server import ToolsAgent

__all__ = ["ToolsAgent"]
