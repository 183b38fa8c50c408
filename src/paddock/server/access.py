"""Who may call the servers of a runtime over HTTP, and how their user's own clients come by the token.

Law     a token that is configured is asked for wherever a server listens. Where none is, its servers listen on loopback
        alone; one is made for this start of them, and left for the clients of the same user until they end.
Errors  ConfigError where it can't be left for those whom the servers are there for.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.http.access import remove_token, store_token
from paddock.server.sockets import Bound

TOKEN_BYTES = 32
_log = logging.getLogger("paddock.server")


class Access(NamedTuple):
    """What callers of a server have to bring."""

    token: str | None = None
    """None: nothing."""
    made: bool = False
    """The token was made at start, not configured."""

    @property
    def is_local(self) -> bool:
        """Only clients of this machine call: none comes by a name of its own, or from a page of another site."""
        return self.token is None or self.made


NO_TOKEN = Access()


def make_access(token: str | None, *, make: bool) -> Access:
    """Access by the configured token, else by a new one where `make` says so."""
    if token is not None or not make:
        return Access(token)
    return Access(secrets.token_urlsafe(TOKEN_BYTES), made=True)


@contextmanager
def tokens_for_clients(token: str, bound: Mapping[str, Bound], *, required: bool) -> Iterator[dict[str, Path]]:
    """The files from which callers of each server learn the token, by its name. `required`: servers without are no use;
    else it is logged, for the runtime's own calls bring the token anyway."""
    with ExitStack() as stack:
        files: dict[str, Path] = {}
        for name, address in bound.items():
            try:
                files[name] = store_token(address.url, token)
            except ConfigError as error:
                if required:
                    raise
                _log.warning("%s: %s", name, error)
                break
            stack.callback(remove_token, address.url, token)
        yield files
