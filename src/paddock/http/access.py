"""The token that a server asks its callers for: where a server stores it, and where clients find it by the URL.

Order   the caller's own token, the variable PADDOCK_TOKEN, then the file that a server of the same user stored.
File    `<address>-<port>` in `paddock/run/<name of the machine>` below `$XDG_CACHE_HOME` or `~/.cache`: one line, the
        header that goes with a request, as `curl -H @FILE` reads it. Mode 0600, in a folder of mode 0700.
Law     a file's token is sent to that address of loopback alone, and to no name: `localhost` has two addresses, and at
        the other one another user may listen. It is valid for one start of the server; the file of a killed server is
        removed by the next server that starts, once nobody listens there.
Errors  ConfigError: a token that can't be read, stored or sent.
"""

import errno
import os
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from paddock.errors import ConfigError
from paddock.temporary import is_private

TOKEN_VARIABLE = "PADDOCK_TOKEN"
SCHEME = "Bearer "
CONNECT_TIMEOUT_S = 1.0
"""Seconds; loopback answers at once."""
_LINE = f"Authorization: {SCHEME}"
_DRAFT = "."
"""Prefix of the name of a file that is being written."""


class _Address(NamedTuple):
    host: str
    port: int

    @property
    def path(self) -> str:
        return f"{_folder()}/{self.host}-{self.port}"

    @property
    def file(self) -> Path:
        return Path(self.path)


def bearer(token: str | None) -> dict[str, str]:
    """The headers with a token; None: without one."""
    return {"authorization": SCHEME + token} if token else {}


def headers_for(url: str, token: str | None = None) -> dict[str, str]:
    """What any HTTP client sends to our server at `url` besides its own headers. `token`: see `token_for`."""
    return bearer(token_for(url, token))


def token_for(url: str, given: str | None = None) -> str | None:
    """The token for our server at `url`; None: none is known. `given`: used before all others."""
    return given or find_token() or stored_token(url)


def find_token(token_file: str | Path | None = None) -> str | None:
    """The token of a file, else of the environment; None: there is none."""
    if token_file is None:
        return _check_token(os.environ.get(TOKEN_VARIABLE, ""), f"variable {TOKEN_VARIABLE}") or None
    try:
        text = Path(token_file).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise ConfigError(f"token file {token_file}: {reason}", kind="token_invalid") from error
    token = _check_token(text.strip(), f"token file {token_file}")
    if not token:
        raise ConfigError(f"token file {token_file}: is empty", kind="token_invalid")
    return token


def stored_token(url: str) -> str | None:
    """The token that a server of this user has stored for `url`; None: there is none."""
    file = token_file(url)
    return None if file is None else read_token(file)


def token_file(url: str) -> str | None:
    """Where a server of this user stores its token for `url`; None: nowhere."""
    address = _address(url)
    try:
        return None if address is None else address.path
    except RuntimeError:
        return None


def read_token(path: str) -> str | None:
    """The token in a file of `token_file`; None: there is none."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - asked for each request: paths cost more
            line = file.read().strip()
    except (OSError, UnicodeDecodeError):  # there is none, or none that this user may read
        return None
    return line.removeprefix(_LINE) if line.startswith(_LINE) else None


def store_token(url: str, token: str) -> Path:
    """Store the token of a server that listens at `url`, in place of an earlier one's; returns the file."""
    address = _address(url)
    assert address is not None  # it listens at an address of loopback
    try:
        folder = Path(_folder())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            raise PermissionError(f"{folder} is not this user's alone (mode 0700)")
        _sweep(folder)
        # A new file, moved there whole: nobody reads half of it or holds an earlier one open.
        draft = address.file.with_name(f"{_DRAFT}{address.file.name}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{_LINE}{token}\n")
        return draft.replace(address.file)
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"the token that callers of {url} bring can't be stored for them: {error}; give one with --token-file or "
            f"{TOKEN_VARIABLE}, or ask for none with `serve.loopback_token: false`",
            kind="token_unusable",
        ) from error


def remove_token(url: str, token: str) -> None:
    """Remove the file of `store_token`, unless another server has replaced it."""
    address = _address(url)
    if address is not None and stored_token(url) == token:
        with suppress(OSError):
            address.file.unlink()


def _folder() -> str:
    """The folder of token files; RuntimeError where the user has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or f"{Path.home()}/.cache"
    # Homes are shared by machines, whose loopbacks are their own.
    return f"{cache}/paddock/run/{quote(socket.gethostname() or 'unnamed', safe='')}"


def _address(url: str) -> _Address | None:
    """The address of a loopback URL; None: it is another."""
    try:
        parts = urlsplit(url)
        host = ip_address(parts.hostname or "")
        port = parts.port
    except ValueError:
        return None
    if parts.scheme != "http" or not host.is_loopback:
        return None
    return _Address(host.compressed, 80 if port is None else port)


def _sweep(folder: Path) -> None:
    """Remove the files of killed servers: a living one listens for longer than its file is there."""
    for path in folder.iterdir():
        host, _, port = path.name.removeprefix(_DRAFT).rpartition("-")
        if port.isdigit() and _is_free(host, int(port)):
            path.unlink(missing_ok=True)


def _is_free(host: str, port: int) -> bool:
    """Whether nobody listens there; False where that can't be found out."""
    with suppress(OSError), socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as caller:
        caller.settimeout(CONNECT_TIMEOUT_S)
        return caller.connect_ex((host, port)) == errno.ECONNREFUSED
    return False


def _check_token(token: str, where: str) -> str:
    if not token.isascii() or any(not 0x21 <= ord(char) <= 0x7E for char in token):
        raise ConfigError(f"{where}: a token is visible ASCII without spaces", kind="token_invalid")
    return token
