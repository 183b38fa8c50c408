"""The judged server: free answers, compared with the expected one by a model."""

from paddock.resources_servers.judged.server import JudgedServer

__all__ = ["JudgedServer"]
