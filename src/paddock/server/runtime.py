"""Running the servers of a config. In one process, servers call each other directly.

Law     nothing is served before everything that can be checked was checked: classes, settings, references.
        Whatever was started is stopped, in reverse order, also when a later start fails.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from paddock.config import Config, resolve_class
from paddock.http import DirectPeer, Peer
from paddock.server.base import Server


def build_servers(config: Config, peers: Mapping[str, Peer]) -> dict[str, Server[Any]]:
    """An instance of every server of the config, not started."""
    servers: dict[str, Server[Any]] = {}
    for name, instance in config.instances.items():
        cls = resolve_class(instance.implementation, instance.kind)
        servers[name] = cls(config.settings(name, cls.config_type), name=name, peers=peers)
    return servers


class Runtime:
    """Running servers, by instance name."""

    def __init__(self, config: Config, peers: Mapping[str, Peer]) -> None:
        self.config = config
        self.peers = peers


@asynccontextmanager
async def open_runtime(config: Config) -> AsyncIterator[Runtime]:
    """All servers of `config` in this process."""
    peers: dict[str, Peer] = {}
    servers = build_servers(config, peers)
    peers.update({name: DirectPeer(name, server.handlers) for name, server in servers.items()})
    async with AsyncExitStack() as stack:
        for server in servers.values():
            stack.push_async_callback(server.stop)
            await server.start()
        yield Runtime(config, peers)
