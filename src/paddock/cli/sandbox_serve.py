"""`paddock sandbox serve`: this machine's sandboxes for clients elsewhere, until a signal.

Output  stdout: the URL when it is ready and, where a token was made, how callers bring it. stderr: logs.
Exit    0 ended by SIGINT, SIGTERM or SIGHUP; 1 no sandbox can be started here; 2 a mistake in the command.
"""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock.sandbox.admission import AdmissionSettings
    from paddock.sandbox.settings import SandboxSettings
    from paddock.sandbox_server.images import NodeImageSettings
    from paddock.server.http_server import TlsFiles
    from paddock.server.sockets import Address

LOOPBACK = "127.0.0.1"
NAME = "sandbox node"
STOP_MARGIN_S = 5.0
"""Seconds beyond `stop_timeout_s` for all sandboxes together to be gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help="YAML with the keys of a `sandbox` block, `admission` and `images`",
    )
    add_address_arguments(parser, port=0)


def add_address_arguments(parser: argparse.ArgumentParser, *, port: int) -> None:
    """Where to listen, and the token. `port`: the default."""
    default = f"{port}; 0: any free one" if port else "any free one"
    parser.add_argument("--host", default=LOOPBACK, help="address to bind; beyond loopback a token is needed")
    parser.add_argument("--port", type=int, default=port, help=f"port to bind (default: {default})")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that clients must bring (default: PADDOCK_TOKEN, or one that is made)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate to serve https with, in PEM")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")
    parser.add_argument("--systemd", action="store_true", help="serve nothing: print a unit that does")


def run(args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.server.loops import run_until_signalled
    from paddock.server.sockets import Address, require_token

    settings, admission, images = _settings(args)
    token = find_token(args.token_file)
    require_token(NAME, args.host, token)
    tls = _tls(args, token)
    address = Address(args.host, args.port)
    stop_timeout_s = settings.stop_timeout_s + STOP_MARGIN_S
    if args.systemd:
        from paddock.cli.sandbox_unit import unit_of

        _say(unit_of(args, settings.home, stop_timeout_s + STOP_MARGIN_S).rstrip())
        return 0
    return run_until_signalled(_serve(settings, admission, images, address, token, tls), stop_timeout_s=stop_timeout_s)


async def _serve(
    settings: "SandboxSettings",
    admission: "AdmissionSettings",
    images: "NodeImageSettings",
    address: "Address",
    token: str | None,
    tls: "TlsFiles | None",
) -> int:
    from paddock.sandbox_server import serve_node
    from paddock.server.access import make_access, tokens_for_clients
    from paddock.server.sockets import bind

    access = make_access(token, make=True)
    bound = bind(NAME, address)
    assert access.token is not None  # one is made where none is configured
    async with serve_node(settings, bound, access=access, admission=admission, images=images, tls=tls):
        if not access.made:
            _say(bound.url if tls is None else bound.url.replace("http:", "https:", 1))
            await asyncio.Event().wait()
        with tokens_for_clients(access.token, {NAME: bound}, required=True) as files:
            _say(bound.url)
            _say(f"clients of this user find its token; others: curl -H @{files[NAME]} {bound.url}/status")
            await asyncio.Event().wait()
    return 0


def _tls(args: argparse.Namespace, token: str | None) -> "TlsFiles | None":
    from paddock.errors import ConfigError
    from paddock.server.http_server import TlsFiles

    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise ConfigError("--tls-cert and --tls-key: give both", kind="tls_unusable")
    if token is None:
        raise ConfigError("--tls-cert: give --token-file too; a token is made for plain loopback", kind="token_missing")
    files = TlsFiles(args.tls_cert, args.tls_key)
    files.check()
    return files


def _settings(args: argparse.Namespace) -> tuple["SandboxSettings", "AdmissionSettings", "NodeImageSettings"]:
    from paddock.config.validation import validate
    from paddock.errors import ConfigError
    from paddock.sandbox.admission import AdmissionSettings
    from paddock.sandbox.settings import SandboxSettings
    from paddock.sandbox_server.images import NodeImageSettings

    keys = read_settings(args.settings)
    if args.home is not None:
        keys["home"] = str(args.home.absolute())
    admission = validate(AdmissionSettings, keys.pop("admission", {}), "admission")
    images = validate(NodeImageSettings, keys.pop("images", {}), "images")
    settings = validate(SandboxSettings, keys, "sandbox")
    if settings.nodes:
        raise ConfigError("nodes: a node serves its own machine's sandboxes", kind="nodes_unusable")
    return settings, admission, images


def read_settings(path: Path | None) -> dict[str, Any]:
    """The keys of a YAML file; None: none."""
    from paddock.config.yaml_text import parse
    from paddock.errors import ConfigError

    if path is None:
        return {}
    try:
        return dict(parse(path.read_text(), str(path)).tree)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--settings {path}: {error}", kind="config_unreadable") from error


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is the command's voice
