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
    from paddock.server.sockets import Address

LOOPBACK = "127.0.0.1"
NAME = "sandbox node"
STOP_MARGIN_S = 5.0
"""Seconds beyond `stop_timeout_s` for all sandboxes together to be gone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", type=Path, metavar="FILE", help="YAML with the keys of a `sandbox` block, and `admission`"
    )
    parser.add_argument("--host", default=LOOPBACK, help="address to bind; beyond loopback a token is needed")
    parser.add_argument("--port", type=int, default=0, help="port to bind (default: any free one)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that clients must bring (default: PADDOCK_TOKEN, or one that is made)",
    )


def run(args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.server.loops import run_until_signalled
    from paddock.server.sockets import Address, require_token

    settings, admission = _settings(args)
    token = find_token(args.token_file)
    require_token(NAME, args.host, token)
    address = Address(args.host, args.port)
    stop_timeout_s = settings.stop_timeout_s + STOP_MARGIN_S
    return run_until_signalled(_serve(settings, admission, address, token), stop_timeout_s=stop_timeout_s)


async def _serve(
    settings: "SandboxSettings", admission: "AdmissionSettings", address: "Address", token: str | None
) -> int:
    from paddock.sandbox_server import serve_node
    from paddock.server.access import make_access, tokens_for_clients
    from paddock.server.sockets import bind

    access = make_access(token, make=True)
    bound = bind(NAME, address)
    assert access.token is not None  # one is made where none is configured
    async with serve_node(settings, bound, access=access, admission=admission):
        if not access.made:
            _say(bound.url)
            await asyncio.Event().wait()
        with tokens_for_clients(access.token, {NAME: bound}, required=True) as files:
            _say(bound.url)
            _say(f"clients of this user find its token; others: curl -H @{files[NAME]} {bound.url}/status")
            await asyncio.Event().wait()
    return 0


def _settings(args: argparse.Namespace) -> tuple["SandboxSettings", "AdmissionSettings"]:
    from paddock.config.validation import validate
    from paddock.errors import ConfigError
    from paddock.sandbox.admission import AdmissionSettings
    from paddock.sandbox.settings import SandboxSettings

    keys = read_settings(args.settings)
    if args.home is not None:
        keys["home"] = str(args.home.absolute())
    admission = validate(AdmissionSettings, keys.pop("admission", {}), "admission")
    settings = validate(SandboxSettings, keys, "sandbox")
    if settings.nodes:
        raise ConfigError("nodes: a node serves its own machine's sandboxes", kind="nodes_unusable")
    return settings, admission


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
