"""The vllm model server: turns in exact token ids, sampled by vLLM servers of its own or by running ones.

Importing this imports nothing of it: vLLM loads `transfer` in each of its processes, and the server is none of those.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.models_servers.vllm.server import VllmServer

__all__ = ["VllmServer"]


def __getattr__(name: str) -> Any:
    if name == "VllmServer":
        from paddock.models_servers.vllm.server import VllmServer

        return VllmServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
