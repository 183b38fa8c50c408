"""The SWE server: a repository, a bug, hidden tests, a verdict."""

from paddock.resources_servers.swe.server import SweServer

__all__ = ["SweServer"]
