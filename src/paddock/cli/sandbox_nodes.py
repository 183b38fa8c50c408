"""`paddock sandbox nodes`, `drain` and `uncordon`: nodes as their clients see them.

    paddock sandbox nodes URL...     how each is: sandboxes, room, images, and what is wrong with it
    paddock sandbox drain URL...     have nodes take no more sandboxes; those that live go on
    paddock sandbox uncordon URL...  have them take sandboxes again

`ray` in place of URLs: the nodes of the Ray cluster of RAY_ADDRESS or of this machine, as of `sandbox: {nodes: ray}`.

Output  stdout: a line for each node, or with `--json` an object for each in a list.
Exit    0 all are well; 1 one is not, or can't be asked; 2 a mistake in the command.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.sandbox.remote.node import NodeClient
    from paddock.sandbox.remote.room import NodeRoom
    from paddock.sandbox.settings import SandboxSettings

COMMANDS = {
    "nodes": "how nodes are: sandboxes, room, images",
    "drain": "have nodes take no more sandboxes",
    "uncordon": "have drained nodes take sandboxes again",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("nodes", nargs="+", metavar="URL", help="as `paddock sandbox serve` prints it, or `ray`")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="their token (default: PADDOCK_TOKEN)")
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="who vouches for nodes at https, in PEM")
    parser.add_argument("--json", action="store_true", help="all that they say, as JSON")


def run(args: argparse.Namespace) -> int:
    from paddock.config.validation import validate
    from paddock.sandbox.settings import SandboxSettings

    nodes = "ray" if args.nodes == ["ray"] else args.nodes
    keys = {"nodes": nodes, "node_token_file": args.token_file, "node_ca_file": args.ca_file}
    return asyncio.run(_run(validate(SandboxSettings, keys, "sandbox"), args))


async def _run(settings: "SandboxSettings", args: argparse.Namespace) -> int:
    from paddock.http.access import find_token
    from paddock.sandbox.failures import SandboxError
    from paddock.sandbox.remote.node import NodeClient
    from paddock.sandbox.remote.ray_nodes import node_urls

    token = None if settings.node_token_file is None else find_token(settings.node_token_file)
    try:
        urls = await node_urls(settings.nodes)
    except SandboxError as error:
        print(f"paddock sandbox: {error.message}", file=sys.stderr)  # noqa: T201 - this is the command's voice
        return 1
    clients = [NodeClient(url, token, settings) for url in urls]
    try:
        await asyncio.gather(*(_act(client, args.command) for client in clients))
        _show(clients, as_json=args.json)
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    return 0 if all(client.state.trouble is None for client in clients) else 1


async def _act(client: "NodeClient", command: str) -> None:
    from paddock.sandbox.failures import SandboxError
    from paddock.sandbox.remote import wire

    try:
        if command != "nodes":
            await client.order(wire.DRAIN if command == "drain" else wire.UNCORDON)
        await client.ask()
    except SandboxError as error:
        client.state.is_in_trouble(error)


def _show(clients: "list[NodeClient]", *, as_json: bool) -> None:
    import json

    if as_json:
        _say(json.dumps([_facts(client) for client in clients], indent=2))
        return
    for client in clients:
        status, trouble = client.last_status, client.state.trouble
        if status is not None:
            counts = f"{status.sandboxes} sandboxes, {status.leases} clients, {status.images} images"
            _say(f"{client.state.url}  {counts}; free {_free(status.room)}")
        if trouble is not None:
            _say(trouble.message)


def _facts(client: "NodeClient") -> dict[str, object]:
    status, trouble = client.last_status, client.state.trouble
    status_json = None if status is None else status.model_dump(mode="json")
    return {"url": client.state.url, "why_not": trouble.message if trouble else None, "status": status_json}


def _free(room: "NodeRoom") -> str:
    free, total = room.free.amount, room.admission.total()
    words = {"memory_mib": "MiB", "cores": "cores", "disk_mib": "MiB of disk", "sandboxes": "sandboxes"}
    parts = [
        f"{own:g} of {most:g} {words[name]}"
        for (name, own), most in zip(free._asdict().items(), total, strict=True)
        if most != float("inf")
    ]
    waiting = f"; {room.waiting} wait" if room.waiting else ""
    return ", ".join(parts) + waiting + ("; draining" if room.draining else "")


def _say(line: str) -> None:
    print(line)  # noqa: T201 - this is the command's voice
