"""The genrm model server: a judge behind vLLM or any OpenAI-compatible chat endpoint."""

from paddock.models_servers.genrm.server import GenrmModelServer

__all__ = ["GenrmModelServer"]
