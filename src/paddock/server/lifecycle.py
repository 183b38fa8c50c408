"""Building, starting and stopping servers within one process.

Law     whatever was started is stopped, in reverse order, also when a later start fails; a server that can't stop is
        named in the log and holds up no other. A server's `start` may not call its peers: they may not have started.
Errors  ConfigError for what a config should say; InfraError kind `start_failed` or `start_timeout` for the rest.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from paddock.config import Config, resolve_class, validate
from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.http import Peer
from paddock.server.access import Access
from paddock.server.base import Server, ServerConfig
from paddock.server.settings import DEFAULT_LIMITS, RequestLimits, ServeSettings
from paddock.server.sockets import Bound

if TYPE_CHECKING:
    from paddock.server.telemetry import Telemetry

IMPORT_S = 60.0
"""Seconds that a process has to start beyond those of its servers."""
_log = logging.getLogger("paddock.server")


def build_servers(
    config: Config, peers: Mapping[str, Peer], names: Iterable[str] | None = None
) -> dict[str, Server[Any]]:
    """An instance of each server of `names`, not started; None: of all."""
    chosen = list(config.instances if names is None else names)
    config.require(chosen)
    servers: dict[str, Server[Any]] = {}
    for name in chosen:
        instance = config.instance(name)
        cls = resolve_class(instance.implementation, instance.kind)
        servers[name] = cls(config.settings(name, cls.config_type), name=name, peers=peers)
    return servers


def check_references(config: Config, names: Iterable[str]) -> None:
    """ConfigError where one of the servers `names` is given another that can't do what it is asked for."""
    classes: dict[str, type[Server[Any]]] = {}
    for name in config.needed(list(names)):
        instance = config.instance(name)
        classes[name] = resolve_class(instance.implementation, instance.kind)
    for name in names:
        settings = config.settings(name, classes[name].config_type)
        try:
            classes[name].check_references(settings, classes)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error.message}", kind=error.kind) from error


def common_settings(config: Config, name: str) -> ServerConfig:
    """The fields that every server's block has; what it does not say, its class does."""
    instance = config.instance(name)
    cls: type[Server[Any]] = resolve_class(instance.implementation, instance.kind)
    fields = cls.config_type.model_fields
    common = {key: fields[key].get_default(call_default_factory=True) for key in ServerConfig.model_fields}
    block = {key: value for key, value in config.block(name).items() if key in common}
    return validate(ServerConfig, {**common, **block}, ".".join((name, *instance[1:3])))


def longest_stop_s(config: Config, settings: ServeSettings, names: Sequence[str] | None = None) -> float:
    """How long the servers `names` and those that they need may take to stop, all together; None: all of the config."""
    chosen = config.needed(config.instances if names is None else names)
    own = (common_settings(config, name).stop_timeout_s for name in chosen)
    return max([settings.stop_timeout_s, *(limit_s or 0.0 for limit_s in own)])


def longest_start_s(config: Config, settings: ServeSettings, names: Sequence[str]) -> float:
    """How long a process may take to start the servers `names` and those that they need, imports included."""
    own = (common_settings(config, name).start_timeout_s for name in config.needed(names))
    return IMPORT_S + settings.start_timeout_s + sum(limit_s or 0.0 for limit_s in own)


@asynccontextmanager
async def start_servers(
    servers: Iterable[Server[Any]], *, start_timeout_s: float, stop_timeout_s: float
) -> AsyncIterator[None]:
    """The servers, started in order."""
    running: list[Server[Any]] = []
    try:
        deadline = asyncio.get_running_loop().time() + start_timeout_s
        for server in servers:
            running.append(server)
            own_s = server.config.start_timeout_s
            await _start(server, deadline if own_s is None else asyncio.get_running_loop().time() + own_s)
        yield
    finally:
        await stop_each(
            {server.name: server.stop for server in reversed(running)}, stop_timeout_s=stop_timeout_s, together=False
        )


async def stop_each(
    stops: Mapping[str, Callable[[], Awaitable[None]]], *, stop_timeout_s: float, together: bool
) -> None:
    """Each stop, one after the other or together, all of them within the time; errors are logged."""
    deadline = asyncio.get_running_loop().time() + stop_timeout_s

    async def stop_one(name: str, stop: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await stop()
        except TimeoutError:
            _log.warning("%s: did not stop within %.1f s", name, stop_timeout_s)
        except Exception:  # noqa: BLE001 - one server's trouble is not another's
            _log.exception("%s: failed while stopping", name)

    if together:
        await asyncio.gather(*(stop_one(name, stop) for name, stop in stops.items()))
        return
    for name, stop in stops.items():
        await stop_one(name, stop)


@asynccontextmanager
async def serve_http(
    servers: Mapping[str, Server[Any]],
    bound: Mapping[str, Bound],
    *,
    access: Access,
    stop_timeout_s: float,
    telemetry: "Mapping[str, Telemetry] | None" = None,
    limits: RequestLimits = DEFAULT_LIMITS,
) -> AsyncIterator[None]:
    """Each server over HTTP on its socket. The servers have started already. `telemetry`: what counts their calls that
    do not come over HTTP, by name."""
    # Imported here: a runtime that does not listen needs no web framework.
    from paddock.server.app import build_app
    from paddock.server.http_server import HttpServer
    from paddock.server.request_checks import LocalRequests

    listeners: dict[str, HttpServer] = {}
    for name, server in servers.items():
        app = build_app(server, access=access, telemetry=(telemetry or {}).get(name), limits=limits)
        guarded = LocalRequests(app) if access.is_local else app
        listeners[name] = HttpServer(guarded, bound[name].sock, stall_timeout_s=limits.stall_timeout_s)
    try:
        for listener in listeners.values():
            await listener.start()
        yield
    finally:
        stops = {name: listener.stop for name, listener in listeners.items()}
        await stop_each(stops, stop_timeout_s=stop_timeout_s, together=True)


async def _start(server: Server[Any], deadline: float) -> None:
    try:
        async with asyncio.timeout_at(deadline) as clock:
            await server.start()
    except PaddockError as error:
        error.message = f"{server.name}: {error.message}"
        error.args = (error.message,)
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and clock.expired():
            raise InfraError(f"{server.name}: did not start in time", kind="start_timeout") from error
        text = f"{server.name}: can't start: {type(error).__name__}: {error}"
        raise InfraError(text, kind="start_failed", retryable=False) from error
