"""Clients of HTTP endpoints that may be anybody's: httpx's interface over aiohttp's connections, and aiohttp's own.

Why     httpx's own connection pool scans all connections for every request: at 256 at once a request costs tens of
        times the CPU it costs alone; over aiohttp's it is the same at any concurrency.
        Where every call counts, aiohttp's own interface is used: httpx's costs as much again as the rest of a request.
        For short calls to nodes of ours that is still most of what they cost: see `connection_pool`.
Cookies none is kept: it would tie all rollouts to one of an endpoint's machines, and each answer would be searched.
Limits  no time limits of its own: callers limit the whole exchange, which also ends a slow body.
Errors  every failure of a connection is an httpx.HTTPError; of a session, an aiohttp.ClientError.
"""

import re
import ssl
from pathlib import Path

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from paddock.errors import ConfigError

KEEPALIVE_S = 30.0
"""Seconds that an idle connection is kept."""
SERVER_KEEPALIVE_S = 75
"""Seconds that our servers keep an idle connection: longer than clients, so that they never close first."""

_REFUSED = re.compile(r"^Cannot connect to host (\S+) ssl:.+? \[(.*)\]$", re.DOTALL)


class _Transport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except httpx.ConnectTimeout as error:
            # The library calls every failure of a connection a connect timeout.
            if isinstance(error.__cause__, TimeoutError):
                raise
            raise httpx.ConnectError(failure_text(error)) from error
        except httpx.ConnectError as error:
            raise httpx.ConnectError(failure_text(error)) from error
        except aiohttp.ClientError as error:
            raise httpx.RemoteProtocolError(f"{type(error).__name__}: {error}") from error


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: httpx.Response) -> None:
        """Keeps none."""


class _PlainClient(httpx.AsyncClient):
    @property
    def cookies(self) -> httpx.Cookies:
        return _NO_COOKIES

    @cookies.setter
    def cookies(self, _cookies: object) -> None:
        """Keeps none."""


_NO_COOKIES = _NoCookies()


def failure_text(error: Exception) -> str:
    """What failed. Leaves out aiohttp's words on TLS, which it adds for plain HTTP too."""
    return _REFUSED.sub(r"can't connect to \1: \2", str(error))


def make_client(*, max_connections: int = 1024) -> httpx.AsyncClient:
    """A client for the running loop; close it with `aclose`. `max_connections`: at once, over all hosts."""
    transport = _Transport(client=lambda: make_session(max_connections=max_connections))
    return _PlainClient(transport=transport, timeout=None)


def make_session(
    *, max_connections: int = 1024, ca_file: Path | None = None, decompress: bool = False
) -> aiohttp.ClientSession:
    """A session for the running loop; close it with `close`. `max_connections`: at once, over all hosts; 0: any number.
    `ca_file`: certificates of the authorities that are trusted; None: the system's. `decompress`: ask for answers that
    may be compressed, and decompress them."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=max_connections, keepalive_timeout=KEEPALIVE_S, ssl=True if ca_file is None else trust(ca_file)
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=decompress,
        timeout=aiohttp.ClientTimeout(),
    )


def trust(ca_file: Path | None) -> ssl.SSLContext:
    """How a client checks who it talks to. `ca_file`: see `make_session`; ConfigError where it holds none."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        message = f"certificates {ca_file}: {error.strerror or error}"
        raise ConfigError(message, kind="ca_unusable") from error
