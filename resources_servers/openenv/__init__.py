"""Environments of OpenEnv, each episode over a WebSocket of its own."""

from paddock.resources_servers.openenv.server import OpenEnvServer

__all__ = ["OpenEnvServer"]
