"""The running servers of a config, as their users see them: by name, how they are called, and whether they failed."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.config import Config
from paddock.errors import InfraError
from paddock.http import Peer
from paddock.server.base import Server


class RunningServer(NamedTuple):
    """One running server."""

    name: str
    kind: str
    implementation: str
    url: str | None
    """Where it listens; None: only this process reaches it."""


class Runtime:
    """Running servers, by instance name."""

    def __init__(
        self,
        config: Config,
        servers: Mapping[str, RunningServer],
        *,
        token: str | None = None,
        token_files: Mapping[str, Path] | None = None,
    ) -> None:
        self.config = config
        self.servers = servers
        self.token = token
        """What servers that listen ask their callers for."""
        self.token_files = token_files or {}
        """Where other clients of this user find it, by server; empty where it is a configured one."""
        self.peers: dict[str, Peer] = {}
        self.local: dict[str, Server[Any]] = {}
        """The servers themselves, where they are in this process."""
        self.failed = asyncio.Event()
        """Set when a server was given up."""
        self.failure: InfraError | None = None
        """Why, once `failed` is set."""

    def fail(self, error: InfraError) -> None:
        """Give up; the first reason is kept."""
        self.failure = self.failure or error
        self.failed.set()
