"""Who we are to a registry: read where other programs keep it, kept in memory, in no message and on no command line.

Source  `PADDOCK_REGISTRY_USER` and `PADDOCK_REGISTRY_PASSWORD`, for the one host that `PADDOCK_REGISTRY_HOST` names;
        else `auths` of `$DOCKER_CONFIG/config.json`, `~/.docker/config.json` or podman's `auth.json`.
Limits  credential helpers (`credsStore`, `credHelpers`) are programs: they are not run.
"""

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError

DOCKER_HUB = "registry-1.docker.io"
_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", DOCKER_HUB)


class Credentials(NamedTuple):
    """A name and its secret; never shown."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


def find_credentials(host: str, environ: Mapping[str, str] | None = None) -> Credentials | None:
    """Credentials for a registry's host; None: we ask anonymously."""
    environ = os.environ if environ is None else environ
    user, password = environ.get("PADDOCK_REGISTRY_USER"), environ.get("PADDOCK_REGISTRY_PASSWORD")
    if user and password and host in _aliases(environ.get("PADDOCK_REGISTRY_HOST", "")):
        return Credentials(user, password)
    for path in _files(environ):
        try:
            auths = json.loads(path.read_bytes()).get("auths") or {}
        except FileNotFoundError:
            continue
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{path}: can't be read as a Docker config: {error}", kind="credentials") from None
        for key, entry in auths.items():
            if host in _aliases(key) and isinstance(entry, dict) and (credentials := _decode(entry)) is not None:
                return credentials
    return None


def _aliases(key: str) -> tuple[str, ...]:
    """The hosts that a key of `auths` speaks for."""
    if key in _HUB_KEYS:
        return _HUB_KEYS
    return (key.removeprefix("https://").removeprefix("http://").partition("/")[0],)


def _decode(entry: Mapping[str, object]) -> Credentials | None:
    if isinstance(auth := entry.get("auth"), str) and auth:
        try:
            user, colon, password = base64.b64decode(auth).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return Credentials(user, password) if colon else None
    user_name, secret = entry.get("username"), entry.get("password")
    return Credentials(user_name, secret) if isinstance(user_name, str) and isinstance(secret, str) else None


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("HOME", "/nonexistent"))
    yield Path(environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"
    if named := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    yield home / ".config" / "containers" / "auth.json"
