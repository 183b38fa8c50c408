"""`paddock images spread`: have nodes fetch images from their peers before a run, so that no sandbox waits for one.

Output  a line for each image that a node has, in the order in which they are there; why another is not, on stderr.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.sandbox.remote.http import NodeHttp


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="an image that a peer of the nodes has")
    parser.add_argument("--node", action="append", required=True, metavar="URL", help="a node; may be repeated")
    parser.add_argument("--token-file", metavar="FILE", help="the nodes' token (default: PADDOCK_TOKEN)")
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="who vouches for nodes at https, in PEM")


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError
    from paddock.sandbox.settings import check_node_url

    for url in args.node:
        try:
            check_node_url(url)
        except ValueError as error:
            raise ConfigError(f"--node {error}", kind="node_invalid") from error
    return asyncio.run(_spread(args))


async def _spread(args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.sandbox.remote.http import NodeHttp

    nodes = [NodeHttp(url, find_token(args.token_file), args.ca_file) for url in args.node]
    try:
        done = await asyncio.gather(*(_fetch(node, name) for node in nodes for name in args.names))
    finally:
        await asyncio.gather(*(node.close() for node in nodes))
    return 0 if all(done) else 1


async def _fetch(node: "NodeHttp", name: str) -> bool:
    from paddock.errors import PaddockError
    from paddock.sandbox_server.images import ask_to_fetch

    try:
        await ask_to_fetch(node, name)
    except PaddockError as error:
        print(f"{node.url}  {name}: {error.message}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        return False
    print(f"{node.url}  {name}", flush=True)  # noqa: T201
    return True
