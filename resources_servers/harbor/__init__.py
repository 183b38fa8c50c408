"""Harbor and Terminal-Bench: tasks folders as they are published, graded by the state of a sandbox."""

from paddock.resources_servers.harbor.server import HarborServer

__all__ = ["HarborServer"]
