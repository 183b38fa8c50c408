"""Where the servers of a collection are."""

from collections.abc import Mapping
from typing import NamedTuple


class ServerLocations(NamedTuple):
    """Where the servers of a collection are."""

    start: bool = True
    """True: start them here, but for those of `urls`; False: they run already."""
    isolate: bool = False
    """Start each in a process of its own."""
    urls: Mapping[str, str] = {}
    """URLs of running servers, by instance name; the others are where the config's host and port say."""
    token: str | None = None
    """The token that servers ask for; None: see `paddock.http.access`."""
