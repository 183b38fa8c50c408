"""`paddock judge check`: how often a judge agrees with known preferences, and how far it can be relied on.

Exit    0 reported; 1 a server can't start, no pair was answered, or the agreement is below `--at-least`; 2 a mistake.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.config import Config
    from paddock.resources_servers.genrm.calibration import Calibration, Preference

SUBCOMMANDS = True
HELP = """a file of preferences is JSONL:
  {"conversation_history": "...", "response_1": "...", "response_2": "...", "preference": 2, "strength": 1}
  preference 1 or 2 (0: neither), strength 1 to 3 or left out; HelpSteer3's rows are read as published

examples:
  paddock judge check preferences.jsonl configs/genrm.yaml
  paddock judge check preferences.jsonl configs/genrm.yaml vars.judge=genrm_model --at-least 0.8 --json judge.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check",
        help="hold a judge against known preferences",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=HELP,
    )
    check.add_argument("preferences", metavar="FILE", type=Path, help="known preferences")
    check.add_argument("config", nargs="+", help="config files, and key.path=value overrides")
    check.add_argument("--server", metavar="NAME", help="the GenRM server (default: the only one of the config)")
    check.add_argument("--concurrency", type=int, default=32, metavar="N", help="pairs asked at once (default: 32)")
    check.add_argument("--timeout-s", type=float, default=600.0, metavar="S", help="for one pair (default: 600)")
    check.add_argument("--at-least", type=float, metavar="SHARE", help="exit with 1 where the agreement is below")
    check.add_argument("--json", type=Path, metavar="FILE", help="write all figures")


def run(args: argparse.Namespace) -> int:
    from paddock.cli.configs import split_arguments
    from paddock.config import load
    from paddock.errors import ConfigError, PaddockError
    from paddock.resources_servers.genrm.calibration import read_preferences

    if args.concurrency < 1 or args.timeout_s <= 0:
        raise ConfigError("--concurrency needs 1 or more, --timeout-s more than 0", kind="flag_invalid")
    preferences = read_preferences(args.preferences)
    files, overrides = split_arguments(args.config)
    # No policy is asked: what agents lack is no matter here.
    config = load(files, overrides, servers=())
    name = args.server or _only_server(config)
    try:
        check = asyncio.run(_check(config, name, args, preferences))
    except ConfigError:
        raise
    except PaddockError as error:
        print(f"paddock judge: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1
    for line in check.lines():
        print(line)  # noqa: T201 - the command's voice
    if args.json is not None:
        args.json.write_text(json.dumps(check.to_json(), indent=1) + "\n")
    answered = check.pairs > sum(check.failed.values())
    below = args.at_least is not None and not (check.agreement.of and check.agreement.share >= args.at_least)
    return 0 if answered and not below else 1


async def _check(
    config: "Config", name: str, args: argparse.Namespace, preferences: "list[Preference]"
) -> "Calibration":
    from paddock.resources_servers.genrm.calibration import calibrate, check_judge
    from paddock.server.runtime import open_runtime

    async with open_runtime(config, names=[name]) as runtime:
        peer = runtime.peers[name]
        return calibrate(await check_judge(peer, preferences, concurrency=args.concurrency, timeout_s=args.timeout_s))


def _only_server(config: "Config") -> str:
    """The GenRM server of the config."""
    from paddock.config import resolve_class
    from paddock.errors import ConfigError
    from paddock.resources_servers.genrm import GenrmServer

    servers = [
        name
        for name, instance in config.instances.items()
        if instance.kind == "resources_servers"
        and issubclass(resolve_class(instance.implementation, instance.kind), GenrmServer)
    ]
    if len(servers) != 1:
        listed = ", ".join(servers) or "none"
        raise ConfigError(f"which GenRM server? Name one with --server; there are: {listed}", kind="server_unknown")
    return servers[0]
