"""Running the servers of a config: all in this process, calling each other directly, or one process each.

Apart   a server that says so (`OWN_PROCESS`), or whose block names another `python`, always has its own process.
Law     nothing is served before everything that can be checked was checked and every server has started: classes,
        settings, references, ports. Whatever was started is stopped, also when a later start fails.
Errors  ConfigError for what the config or an address should say; InfraError for a server that can't start.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.config import Config, resolve_class
from paddock.errors import ConfigError
from paddock.http import DirectPeer, HttpPeer
from paddock.server.access import Access, make_access, tokens_for_clients
from paddock.server.base import Server
from paddock.server.lifecycle import build_servers, check_references, common_settings, serve_http, start_servers
from paddock.server.running_servers import RunningServer, Runtime
from paddock.server.settings import ServeSettings, serve_settings
from paddock.server.sockets import LOOPBACK, Address, Bound, bind, require_token
from paddock.temporary import sweep

if TYPE_CHECKING:
    from paddock.server.telemetry import Telemetry


NOWHERE: Mapping[str, str] = {}


@asynccontextmanager
async def open_runtime(
    config: Config,
    *,
    names: Sequence[str] | None = None,
    listen: bool = False,
    isolate: bool = False,
    host: str | None = None,
    token: str | None = None,
    elsewhere: Mapping[str, str] = NOWHERE,
) -> AsyncIterator[Runtime]:
    """The servers `names` and those that they reference; None: all of the config.

    `listen` serves each over HTTP too; `isolate`, which implies it, gives each its own process. `host` comes before
    the config's. Every server asks for `token` over HTTP, and the runtime's own calls bring it; None: for one that is
    made here (`serve.loopback_token`). `elsewhere`: URLs of servers that run already, by name; they are reached there.
    """
    settings = serve_settings(config)
    chosen = [name for name in _needed_names(config, names) if name not in elsewhere]
    config.require(chosen)
    check_references(config, chosen)
    # A server that runs for others may be asked again for what it was told before; a run of its own asks for nothing.
    await asyncio.to_thread(sweep, chosen if listen else ())
    async with AsyncExitStack() as stack:
        apart = [name for name in chosen if isolate or _is_apart(config, name)]
        called = [name for name in chosen if name in config.needed(apart)] if apart else []
        listeners = chosen if listen or isolate else called
        bound = _bind_all(config, listeners, host, token, stack)
        access = make_access(token, make=settings.loopback_token and bool(bound))
        files: dict[str, Path] = {}
        if access.token is not None and access.made:
            files = stack.enter_context(tokens_for_clients(access.token, bound, required=listen))
        servers = {name: _running_server(config, name, bound) for name in chosen}
        servers |= {name: _running_server(config, name, {})._replace(url=url) for name, url in elsewhere.items()}
        runtime = Runtime(config, servers, token=access.token, token_files=files)
        if elsewhere:
            from paddock.http.transport import make_client  # an HTTP client only where it is wanted

            client = make_client()
            stack.push_async_callback(client.aclose)
            runtime.peers.update({name: HttpPeer(name, client, url, token=token) for name, url in elsewhere.items()})
        if apart:
            from paddock.server.isolate import run_isolated  # with its HTTP client: only where it is wanted

            await stack.enter_async_context(run_isolated(runtime, apart, bound, settings, access))
        here = [name for name in chosen if name not in apart]
        if here:
            await stack.enter_async_context(_in_process(runtime, here, bound, settings, access))
        yield runtime


def shared_names(config: Config, names: Sequence[str]) -> list[str]:
    """Of `names` and what they reference, the servers that are started once however many workers call them, and all
    that those reference."""
    needed = _needed_names(config, names)
    return config.needed(name for name in needed if _class(config, name).SHARED or _is_apart(config, name))


def describe_servers(
    config: Config,
    names: Sequence[str] | None,
    *,
    host: str | None = None,
    token: str | None = None,
    elsewhere: Mapping[str, str] = NOWHERE,
) -> list[RunningServer]:
    """What `open_runtime` would serve, checked as far as it can be without starting; `url` only for a fixed port."""
    serve_settings(config)
    chosen = [name for name in _needed_names(config, names) if name not in elsewhere]
    build_servers(config, {}, chosen)
    check_references(config, chosen)
    servers: list[RunningServer] = []
    for name in chosen:
        address = _address(config, name, host)
        require_token(name, address.host, token)
        url = f"http://{address.host}:{address.port}" if address.port else None
        servers.append(_running_server(config, name, {})._replace(url=url))
    return servers


def _needed_names(config: Config, names: Sequence[str] | None) -> list[str]:
    """`names` and what they reference; None: all."""
    chosen = config.needed(config.instances if names is None else names)
    if not chosen:
        raise ConfigError("the config has no server: it needs `name: server type: implementation`", kind="no_server")
    return chosen


@asynccontextmanager
async def _in_process(
    runtime: Runtime, names: Sequence[str], bound: Mapping[str, Bound], settings: ServeSettings, access: Access
) -> AsyncIterator[None]:
    servers = build_servers(runtime.config, runtime.peers, names)
    runtime.local.update(servers)
    telemetry = _telemetry({name: server for name, server in servers.items() if name in bound})
    runtime.peers.update(
        {name: DirectPeer(name, telemetry.get(name, server).handlers) for name, server in servers.items()}
    )
    # Of the time to stop, listeners and servers get half each.
    half_s = settings.stop_timeout_s / 2
    async with start_servers(servers.values(), start_timeout_s=settings.start_timeout_s, stop_timeout_s=half_s):
        listeners = {name: server for name, server in servers.items() if name in bound}
        if not listeners:
            yield
            return
        async with serve_http(
            listeners, bound, access=access, stop_timeout_s=half_s, telemetry=telemetry, limits=settings
        ):
            yield


def _telemetry(listening_servers: Mapping[str, Server[Any]]) -> "dict[str, Telemetry]":
    """Counters of what is served over HTTP, where they can be read."""
    if not listening_servers:
        return {}
    from paddock.server.telemetry import Telemetry  # with its library: a run that does not listen needs neither

    return {name: Telemetry(server) for name, server in listening_servers.items()}


def _class(config: Config, name: str) -> type[Server[Any]]:
    instance = config.instance(name)
    cls: type[Server[Any]] = resolve_class(instance.implementation, instance.kind)
    return cls


def _is_apart(config: Config, name: str) -> bool:
    return _class(config, name).OWN_PROCESS or common_settings(config, name).python is not None


def _bind_all(
    config: Config, names: Sequence[str], host: str | None, token: str | None, stack: AsyncExitStack
) -> dict[str, Bound]:
    bound: dict[str, Bound] = {}
    for name in names:
        address = _address(config, name, host)
        require_token(name, address.host, token)
        bound[name] = bind(name, address)
        stack.callback(bound[name].sock.close)
    return bound


def _address(config: Config, name: str, host: str | None) -> Address:
    """Where `name` is to listen: what was asked for, its own `host`, the config's `default_host`, loopback."""
    own = common_settings(config, name)
    return Address(host or own.host or config.top("default_host") or LOOPBACK, own.port or 0)


def _running_server(config: Config, name: str, bound: Mapping[str, Bound]) -> RunningServer:
    instance = config.instance(name)
    url = bound[name].url if name in bound else None
    return RunningServer(name, instance.kind, instance.implementation, url)


__all__ = ["RunningServer", "Runtime", "describe_servers", "open_runtime"]
