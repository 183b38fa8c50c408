"""`paddock view`: runs in a browser, until a signal.

Output  stdout: the address to open. It has the token in its fragment: who has the address may look.
Exit    0 ended by SIGINT, SIGTERM or SIGHUP; 2 a mistake: no such folder, a port that is taken.
"""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.server.sockets import Address
    from paddock.viewer.web import Catalog

EXAMPLES = """examples:
  paddock view                      all runs below runs/
  paddock view runs/mine            one run
  paddock view runs /data/shared    all runs below two folders
  paddock view --port 7000          at a port of your own choice, as for a tunnel: ssh -L 7000:127.0.0.1:7000"""
LOOPBACK = "127.0.0.1"
NAME = "view"
DEFAULT_ROOT = Path("runs")
STOP_TIMEOUT_S = 2.0
"""Seconds for answers that are on their way."""
ENDS_IN_ORDER = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="run folders, or folders of them (runs)")
    parser.add_argument("--host", default=LOOPBACK, help="address to bind; beyond loopback a token is needed")
    parser.add_argument("--port", type=int, default=0, help="port to bind (default: any free one)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that the page must bring (default: PADDOCK_TOKEN, or one that is made)",
    )


def run(args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.server.loops import run_until_signalled
    from paddock.server.sockets import Address, require_token
    from paddock.viewer.web import Catalog

    token = find_token(args.token_file)
    require_token(NAME, args.host, token)
    catalog = Catalog(args.runs or [DEFAULT_ROOT])
    catalog.runs()
    return run_until_signalled(_serve(catalog, Address(args.host, args.port), token), stop_timeout_s=STOP_TIMEOUT_S)


async def _serve(catalog: "Catalog", address: "Address", token: str | None) -> int:
    from paddock.server.access import make_access
    from paddock.server.sockets import bind
    from paddock.viewer.web import serve_view

    async with serve_view(catalog, bind(NAME, address), access=make_access(token, make=True)) as url:
        print(url, flush=True)  # noqa: T201 - this is the command's voice
        await asyncio.Event().wait()
    return 0
