"""`paddock check KIND:NAME`: the conformance suite of a plugin, or of a sandbox runtime; one line per behaviour.

Exit    0 every behaviour holds or does not apply; 1 one is broken; 2 a mistake in the command.
"""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.conformance import ServerTarget
    from paddock.conformance.harnesses import HarnessTarget
    from paddock.conformance.sandboxes import SandboxTarget

EXAMPLES = """examples:
  paddock check resources_server:pivot
  paddock check agent:single_step
  paddock check models_server:replay
  paddock check models_server:sglang sglang.yaml      (the engine that it names runs; its model ends its answers)
  paddock check harness:codeact
  paddock check harness:my_package:MyHarness agent.yaml
  paddock check sandbox:bubblewrap
  paddock check sandbox:remote
  paddock check resources_server:my_package.server:MyServer --rows rows.jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument(
        "plugin",
        metavar="KIND:NAME",
        help="resources_server, agent, models_server or harness, and a folder or module:Class; sandbox, and a runtime",
    )
    parser.add_argument("config", nargs="*", help="config files and overrides; the plugin's first block there is used")
    parser.add_argument("--rows", metavar="FILE", help="rows for it; default: its data/example.jsonl")
    parser.add_argument("--image", metavar="NAME", help="for a sandbox: an image of the store; default: one made here")
    parser.add_argument("--only", metavar="TEXT", help="behaviours whose name holds this text")


def run(args: argparse.Namespace) -> int:
    from paddock.conformance import ServerTarget, run_behaviour, suite_for
    from paddock.conformance.harnesses import HarnessTarget
    from paddock.conformance.sandboxes import SandboxTarget
    from paddock.errors import ConfigError
    from paddock.sandbox import RuntimeMissing

    target = _target(args)
    suite = suite_for(target.kind, target.cls if isinstance(target, ServerTarget) else None)
    behaviours = [behaviour for behaviour in suite if args.only is None or args.only in behaviour.name]

    if not behaviours:
        raise ConfigError(
            f"--only {args.only!r}: no behaviour of {target.kind} has that in its name", kind="no_behaviour"
        )

    async def check() -> int:
        failed = 0
        if isinstance(target, SandboxTarget | HarnessTarget):
            try:
                await target.ready()
            except RuntimeMissing as missing:
                raise ConfigError(str(missing), kind="runtime_missing") from missing
        for behaviour in behaviours:
            result = await run_behaviour(behaviour, target)
            failed += result.outcome == "failed"
            detail = f": {result.detail}" if result.detail else ""
            print(f"{result.outcome:<8}{result.behaviour}{detail}", flush=True)  # noqa: T201 - the command's voice
        print(f"{args.plugin}: {len(behaviours)} behaviours, {failed} broken")  # noqa: T201 - the command's voice
        return 1 if failed else 0

    return asyncio.run(check())


def _target(args: argparse.Namespace) -> "ServerTarget | SandboxTarget | HarnessTarget":
    from paddock.cli.configs import load_config
    from paddock.conformance import HARNESS_WORDS, SANDBOX_WORDS, find_target
    from paddock.errors import ConfigError

    word = args.plugin.partition(":")[0]
    if word in SANDBOX_WORDS:
        from paddock.conformance.sandboxes import find_sandbox

        if args.config or args.rows:
            raise ConfigError(f"{args.plugin}: a sandbox takes no config and no rows", kind="subject_invalid")
        return find_sandbox(args.plugin, image=args.image)
    if args.image:
        raise ConfigError(f"{args.plugin}: --image is for sandboxes", kind="subject_invalid")
    config = load_config(args.config, modelless=word in HARNESS_WORDS) if args.config else None
    if word in HARNESS_WORDS:
        from paddock.conformance.harnesses import find_harness

        if args.rows:
            raise ConfigError(f"{args.plugin}: a harness takes no rows", kind="subject_invalid")
        return find_harness(args.plugin, config=config)
    return find_target(args.plugin, config=config, rows=Path(args.rows) if args.rows else None)
