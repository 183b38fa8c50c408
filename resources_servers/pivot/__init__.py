"""The pivot server: a policy's next action against an expert's."""

from paddock.resources_servers.pivot.server import PivotServer

__all__ = ["PivotServer"]
