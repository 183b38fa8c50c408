"""`paddock serve CONFIG... [key=value ...]`: run servers until a signal.

Output  stdout: one line per server when all are ready: name, kind/implementation, URL; then, where a token was made,
        how callers bring it. stderr: notes and logs.
Exit    0 ended by SIGINT, SIGTERM or SIGHUP, within `serve.stop_timeout_s`; 1 a server can't start or was given up;
        2 a mistake in the command or the config.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

from paddock.config import Config
from paddock.errors import ConfigError, PaddockError
from paddock.http.access import find_token
from paddock.server.lifecycle import longest_stop_s
from paddock.server.loops import run_until_signalled
from paddock.server.repeats import log_warnings
from paddock.server.runtime import RunningServer, Runtime, describe_servers, open_runtime
from paddock.server.settings import serve_settings
from paddock.server.targets import load_target

ENDS_IN_ORDER = True


class ServeOptions(NamedTuple):
    """What the command asks of the runtime."""

    names: Sequence[str] | None
    isolate: bool
    host: str | None
    token: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="+",
        metavar="CONFIG|key=value",
        help="config files, later ones win; or one plugin's name, served alone; `key.path=value` sets a key "
        "(`judge.models_servers.my_pkg.judges:Judge.bias=1` one of a class), `~key.path` deletes one",
    )
    parser.add_argument(
        "--server", action="append", metavar="NAME", help="serve this instance and those it needs; may be repeated"
    )
    parser.add_argument("--isolate", action="store_true", help="a process for each server")
    parser.add_argument("--host", help="address to bind, before the config's; beyond loopback a token is needed")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that callers must bring (default: PADDOCK_TOKEN, or one that is made)",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, name the servers, start nothing")
    parser.add_argument("--strict", action="store_true", help="refuse config keys that say nothing here")


def run(args: argparse.Namespace) -> int:
    log_warnings()
    target = load_target(args.config, names=args.server, strict=args.strict)
    config = target.config
    for note in config.notes:
        _say(f"note: {note}")
    settings = serve_settings(config)
    token = find_token(args.token_file or settings.token_file)
    options = ServeOptions(target.names, args.isolate, args.host, token)
    if args.dry_run:
        return _show(config, options)
    try:
        stop_timeout_s = longest_stop_s(config, settings, options.names)
        return run_until_signalled(_serve(config, options), stop_timeout_s=stop_timeout_s)
    except ConfigError:
        raise
    except PaddockError as error:
        _say(f"paddock serve: {error}")
        return 1


async def _serve(config: Config, options: ServeOptions) -> int:
    async with open_runtime(
        config, names=options.names, listen=True, isolate=options.isolate, host=options.host, token=options.token
    ) as runtime:
        _print_servers(list(runtime.servers.values()))
        _print_calls(runtime)
        await runtime.failed.wait()
        _say(f"paddock serve: {runtime.failure}")
        return 1


def _show(config: Config, options: ServeOptions) -> int:
    servers = describe_servers(config, options.names, host=options.host, token=options.token)
    _print_servers(servers)
    return 0


def _print_servers(servers: Sequence[RunningServer]) -> None:
    width = max((len(server.name) for server in servers), default=0)
    kinds = max((len(f"{server.kind}/{server.implementation}") for server in servers), default=0)
    for server in servers:
        line = f"{server.name:<{width}}  {f'{server.kind}/{server.implementation}':<{kinds}}  {server.url or ''}"
        print(line.rstrip(), flush=True)  # noqa: T201 - this is the command's voice


def _print_calls(runtime: Runtime) -> None:
    """How a server is called that asks for a token which nobody was told. The first stands for all."""
    for name, path in list(runtime.token_files.items())[:1]:
        url = runtime.servers[name].url
        print(f"callers bring the token of {path}:")  # noqa: T201 - this is the command's voice
        print(f"  curl -H @{path} {url}/metrics")  # noqa: T201
        print(f'  paddock.connect("{url}"), or headers=paddock.http.headers_for("{url}")', flush=True)  # noqa: T201


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
