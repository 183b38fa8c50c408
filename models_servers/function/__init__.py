"""The function model server: turns in exact token ids, sampled by an asynchronous function of this process."""

from paddock.models_servers.function.server import FunctionServer

__all__ = ["FunctionServer"]
