"""A resources server that runs elsewhere, by its URL."""

from paddock.resources_servers.external.server import ExternalServer

__all__ = ["ExternalServer"]
