"""Finds free ports for processes that can't be handed a listening socket and bind them seconds later.

A port that the kernel chose lies in the range from which it serves every other socket that asks for any, so it may be
taken in those seconds. These lie below that range (`ip_local_port_range`, Linux's `ip(7)`).
"""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
FIRST = 10_000
"""Below are ports of well-known servers."""
TRIES = 1000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_IANA_FIRST = 49_152
"""The first of dynamic ports by RFC 6335, where the system does not say its own."""


def free_port(address: str = LOOPBACK) -> int:
    """A port on which nothing listens at `address`. OSError: none was found, or the address is not this machine's."""
    return free_ports(1, address)[0]


def free_ports(n: int, address: str = LOOPBACK) -> list[int]:
    """`n` different ports, as `free_port`."""
    last, chance = _first_dynamic() - 1, random.SystemRandom()
    ports: list[int] = []
    failure: OSError | None = None
    for _ in range(TRIES * n):
        if len(ports) == n:
            return ports
        port = chance.randint(FIRST, last) if last > FIRST else 0
        try:
            with socket.create_server((address, port)) as listening:
                port = listening.getsockname()[1]
        except OSError as error:
            failure = error
            continue
        if port not in ports:
            ports.append(port)
    raise OSError(f"no free port from {FIRST} to {last} at {address}: {failure}")


def _first_dynamic() -> int:
    try:
        return int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _IANA_FIRST
