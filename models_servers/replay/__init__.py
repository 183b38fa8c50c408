"""The replay model server: turns that are there already in place of a model."""

from paddock.models_servers.replay.server import ReplayServer

__all__ = ["ReplayServer"]
