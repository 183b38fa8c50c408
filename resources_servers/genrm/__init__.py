"""The GenRM server: responses judged against each other by a generative reward model."""

from paddock.resources_servers.genrm.server import GenrmServer

__all__ = ["GenrmServer"]
