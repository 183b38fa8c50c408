"""Server bases, the app of one server, and running the servers of a config: in this process or one process each."""

from paddock.server.base import (
    AgentConfig,
    AgentServer,
    Dataset,
    Handler,
    ModelServer,
    Reference,
    ResourcesServer,
    Server,
    ServerConfig,
)
from paddock.server.environment_tools import ToolMistake, tool
from paddock.server.tools_server import ToolsServer, ToolsServerConfig

__all__ = [
    "AgentConfig",
    "AgentServer",
    "Dataset",
    "Handler",
    "ModelServer",
    "Reference",
    "ResourcesServer",
    "Server",
    "ServerConfig",
    "ToolMistake",
    "ToolsServer",
    "ToolsServerConfig",
    "tool",
]
