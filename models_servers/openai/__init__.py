"""The openai model server: a recording proxy in front of any OpenAI-compatible endpoint."""

from paddock.models_servers.openai.server import OpenAIServer

__all__ = ["OpenAIServer"]
