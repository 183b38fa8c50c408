"""Listening sockets, bound before anything is served: a taken port is said before any server starts.

Law     a socket listens as soon as it is bound, because two sockets of one port may both be bound on Linux until one
        listens; callers that connect early wait, and are answered when the server is ready or refused when it is not.
        An address beyond loopback needs a token.
Errors  ConfigError naming the server, the address and what is wrong with it.
"""

import ipaddress
import socket
from typing import NamedTuple

from paddock.errors import ConfigError

LOOPBACK = "127.0.0.1"
BACKLOG = 2048
"""Connections that may wait to be accepted; a collector may open a thousand at once."""


class Address(NamedTuple):
    """Where a server is to listen."""

    host: str
    port: int
    """0: any free port."""


class Bound(NamedTuple):
    """A listening socket, and the URL at which this machine reaches it."""

    sock: socket.socket
    url: str


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_token(name: str, host: str, token: str | None) -> None:
    """ConfigError for an address that others reach, served without a token."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"{name}: host {host} is reachable from other machines and needs a token: "
            "give --token-file, `serve.token_file` or the variable PADDOCK_TOKEN",
            kind="token_missing",
        )


def bind(name: str, address: Address) -> Bound:
    """A socket that listens at `address`; ConfigError when it can't be had."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"{name}: can't listen on {host}:{port}: {error.strerror or error}", kind="port_unusable"
        ) from error
    sock.settimeout(0)
    return Bound(sock, url_of(sock))


def url_of(sock: socket.socket) -> str:
    """The URL at which this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if sock.family == socket.AF_INET6 else LOOPBACK
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
