"""`paddock check KIND:NAME`: a plugin's conformance suite, one line per behaviour.

Exit    0 every behaviour holds or does not apply; 1 one is broken; 2 a mistake in the command.
"""

import argparse
import asyncio
from pathlib import Path

EXAMPLES = """examples:
  paddock check resources_server:pivot
  paddock check agent:single_step
  paddock check models_server:replay
  paddock check resources_server:my_package.server:MyServer --rows rows.jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument(
        "plugin", metavar="KIND:NAME", help="resources_server, agent or models_server; folder or module:Class"
    )
    parser.add_argument("config", nargs="*", help="config files and overrides; the plugin's first block there is used")
    parser.add_argument("--rows", metavar="FILE", help="rows for it; default: its data/example.jsonl")
    parser.add_argument("--only", metavar="TEXT", help="behaviours whose name holds this text")


def run(args: argparse.Namespace) -> int:
    from paddock.cli.configs import load_config
    from paddock.conformance import find_subject, run_one, suite_for
    from paddock.errors import ConfigError

    config = load_config(args.config) if args.config else None
    subject = find_subject(args.plugin, config=config, rows=Path(args.rows) if args.rows else None)
    behaviours = [one for one in suite_for(subject.kind) if args.only is None or args.only in one.name]

    if not behaviours:
        raise ConfigError(
            f"--only {args.only!r}: no behaviour of {subject.kind} has that in its name", kind="no_behaviour"
        )

    async def check() -> int:
        failed = 0
        for behaviour in behaviours:
            result = await run_one(behaviour, subject)
            failed += result.outcome == "failed"
            detail = f": {result.detail}" if result.detail else ""
            print(f"{result.outcome:<8}{result.behaviour}{detail}", flush=True)  # noqa: T201 - the command's voice
        print(f"{args.plugin}: {len(behaviours)} behaviours, {failed} broken")  # noqa: T201 - the command's voice
        return 1 if failed else 0

    return asyncio.run(check())
