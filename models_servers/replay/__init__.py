"""The replay model server: scripted turns."""

from paddock.models_servers.replay.server import ReplayServer

__all__ = ["ReplayServer"]
