"""`paddock sandbox serve --systemd`: the unit of a node with the same arguments.

Law     a unit holds no secret: token and private key come as credentials (`LoadCredential`), files that systemd reads
        as root and shows to this service alone.
Source  systemd.exec(5), systemd.service(5); the specifier `%d` needs systemd 251.
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from paddock.errors import ConfigError

UNIT = """\
[Unit]
Description=Paddock sandboxes for clients elsewhere
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={command}
Environment={home}
{credentials}
Restart=on-failure
RestartSec=5
# Sandboxes are its child processes, in control groups that it makes below its own.
Delegate=yes
KillMode=mixed
TimeoutStopSec={stop_timeout_s:g}
TasksMax=infinity
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
"""


def unit_of(args: argparse.Namespace, home: Path, stop_timeout_s: float) -> str:
    """The unit's text. `stop_timeout_s`: what the service may take to end."""
    if args.token_file is None:
        raise ConfigError("--systemd: give --token-file; a unit holds no secret itself", kind="token_missing")
    if args.port == 0:
        raise ConfigError("--systemd: give --port; clients have to know it", kind="port_missing")
    credentials = {"token": args.token_file}
    words = [sys.executable, "-m", "paddock", "sandbox", "serve", "--host", args.host, "--port", str(args.port)]
    secret = ["--token-file", "%d/token"]
    if args.settings is not None:
        words += ["--settings", _path(args.settings)]
    if args.tls_cert is not None:
        words += ["--tls-cert", _path(args.tls_cert)]
        credentials["tls-key"] = args.tls_key
        secret += ["--tls-key", "%d/tls-key"]
    return UNIT.format(
        command=" ".join([*map(_quoted, words), *secret]),
        home=_quoted(f"PADDOCK_HOME={home}"),
        credentials="\n".join(_credentials(credentials.items())),
        stop_timeout_s=stop_timeout_s,
    )


def _credentials(named: Iterable[tuple[str, str | Path]]) -> Iterable[str]:
    return (f"LoadCredential={name}:{_path(file).replace('%', '%%')}" for name, file in named)


def _path(file: str | Path) -> str:
    return os.path.abspath(Path(file).expanduser())  # noqa: PTH100 - a link stays one


def _quoted(word: str) -> str:
    """A word of a command line as systemd reads it."""
    word = word.replace("%", "%%").replace("$", "$$")
    if not any(mark in word for mark in " \t'\"\\;"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
