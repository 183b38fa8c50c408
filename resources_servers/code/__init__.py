"""The code server: programs against hidden tests, in sandboxes."""

from paddock.resources_servers.code.server import CodeServer

__all__ = ["CodeServer"]
