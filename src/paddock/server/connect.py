"""`paddock.connect`: servers at hand in a script or a notebook, whether they run here or elsewhere.

Target  config files or a plugin's name (the servers run in this process, until closed), the URL of a running server, or
        a mapping of names to URLs.
Law     handles answer with a result where no loop runs in this thread, else with an awaitable.
Errors  PaddockErrors, by owner: ConfigError for the target, what a server raised for a call.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from paddock.config import KINDS, Kind
from paddock.config.problems import suggestion
from paddock.errors import ConfigError, InfraError
from paddock.http import HttpPeer, Peer, token_for
from paddock.http.transport import make_client
from paddock.server.background import Background
from paddock.server.base import Server
from paddock.server.handles import AgentHandle, Handle, ModelHandle, ResourcesHandle
from paddock.server.runtime import open_runtime
from paddock.server.targets import load_target
from paddock.types import JsonObject

HELLO_TIMEOUT_S = 10.0
"""Time for a running server to say what it is."""

HANDLES: dict[Kind, type[Handle]] = {
    "resources_servers": ResourcesHandle,
    "agents": AgentHandle,
    "models_servers": ModelHandle,
}


class ServerAddress(NamedTuple):
    """One server that can be called."""

    kind: Kind
    peer: Peer
    local: Server[Any] | None
    """The server itself, where it runs in this process."""


def connect(
    target: str | Path | Sequence[str | Path] | Mapping[str, str],
    *,
    servers: Sequence[str] | None = None,
    token: str | None = None,
    **overrides: Any,
) -> "Connection":
    """Handles on servers.

    `servers`: of a config, only these and those they need. `token`: what running servers ask for; None: the variable
    PADDOCK_TOKEN, or what a server of this user has left. `overrides`: of a config, keys with their values; dots lead
    to inner keys.
    """
    urls = _urls(target)
    if urls is None:
        if not isinstance(target, str | Path | Sequence):
            got = type(target).__name__
            raise ConfigError(
                f"connect: needs config files, a plugin, a URL or URLs by name, got {got}", kind="target_invalid"
            )
        words = [target] if isinstance(target, str | Path) else list(target)
        loaded = load_target(words, names=servers, extra=_nested(overrides))
        return Connection(Background(_open_local(open_runtime(loaded.config, names=loaded.names))))
    if overrides or servers:
        given = ", ".join([*overrides, *(["servers"] if servers else [])])
        raise ConfigError(f"running servers are as they are: {given} can't be set", kind="target_invalid")
    return Connection(Background(_open_remote(urls, token)))


class Connection:
    """Servers by name: `connection["pivot"]`, `connection.pivot`. Closed by `close`, `with` or the program's end."""

    def __init__(self, background: Background[dict[str, ServerAddress]]) -> None:
        self._background = background
        self._handles: dict[str, Handle] = {}
        for name, address in background.opened.items():
            peers = {peer_name: opened.peer for peer_name, opened in background.opened.items()}
            self._handles[name] = HANDLES[address.kind](name, peers, background.answer, address.local)

    def __getitem__(self, name: str) -> Any:
        if name not in self._handles:
            hint = suggestion(name, self._handles, label="servers")
            raise ConfigError(f"no server `{name}` here{hint}", kind="unknown_instance")
        return self._handles[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._handles:
            raise AttributeError(f"no server `{name}` here; servers: {', '.join(self._handles)}")
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._handles]

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the servers that were started here."""
        self._background.close()

    def __repr__(self) -> str:
        return f"Connection({', '.join(repr(handle) for handle in self._handles.values())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><b>{escape(name)}</b></td><td>{escape(handle.kind)}</td><td>{escape(handle.calls)}</td></tr>"
            for name, handle in self._handles.items()
        )
        return f"<table><tr><th>server</th><th>kind</th><th>calls</th></tr>{rows}</table>"


@asynccontextmanager
async def _open_local(runtime: Any) -> AsyncIterator[dict[str, ServerAddress]]:
    async with runtime as opened:
        yield {
            name: ServerAddress(server.kind, opened.peers[name], opened.local.get(name))
            for name, server in opened.servers.items()
        }


@asynccontextmanager
async def _open_remote(urls: Mapping[str, str], token: str | None) -> AsyncIterator[dict[str, ServerAddress]]:
    """Running servers, after each has said what it is. A name of `""` is asked for too."""
    async with AsyncExitStack() as stack:
        client = make_client()
        stack.push_async_callback(client.aclose)
        addresses: dict[str, ServerAddress] = {}
        for given, url in urls.items():
            health = await _read_health(client, url)
            name = given or str(health["name"])
            addresses[name] = ServerAddress(
                health["kind"], HttpPeer(name, client, url, token=token_for(url, token)), None
            )
        yield addresses


async def _read_health(client: httpx.AsyncClient, url: str) -> JsonObject:
    try:
        reply = await client.get(f"{url.rstrip('/')}/healthz", timeout=HELLO_TIMEOUT_S)
        health = reply.json()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InfraError(f"{url}: can't be reached: {type(error).__name__}: {error}", kind="connection") from error
    except ValueError:
        health = None
    if not isinstance(health, dict) or health.get("kind") not in KINDS or not isinstance(health.get("name"), str):
        raise ConfigError(
            f"{url}: no server of ours: its /healthz does not say a name and a kind", kind="target_invalid"
        )
    return health


def _urls(target: Any) -> dict[str, str] | None:
    """The URLs of a target, by name; None: it is a config."""
    if isinstance(target, Mapping):
        wrong = [name for name, url in target.items() if not _is_url(url)]
        if wrong:
            raise ConfigError(f"`{wrong[0]}`: needs a URL, got {target[wrong[0]]!r}", kind="target_invalid")
        return dict(target)
    return {"": target} if _is_url(target) else None


def _is_url(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _nested(overrides: Mapping[str, Any]) -> JsonObject:
    tree: JsonObject = {}
    for path, value in overrides.items():
        *parents, last = path.split(".")
        subtree = tree
        for key in parents:
            subtree = subtree.setdefault(key, {})
        subtree[last] = value
    return tree
