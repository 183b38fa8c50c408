"""The vllm model server: turns in exact token ids, sampled by vLLM servers of its own or by running ones."""

from paddock.models_servers.vllm.server import VllmServer

__all__ = ["VllmServer"]
