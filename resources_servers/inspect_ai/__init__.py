"""Samples of inspect_ai tasks, judged by the tasks' own scorers."""

from paddock.resources_servers.inspect_ai.server import InspectServer

__all__ = ["InspectServer"]
