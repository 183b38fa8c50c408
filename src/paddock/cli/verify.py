"""`paddock verify`: score stored rollouts again, without a model.

Exit    0 every verdict is as stored; 1 the environment's server can't start; 2 a mistake; 3 some could not be scored;
        4 some rewards or reasons differ.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from paddock.cli import workers

EXITS = """exit codes:
  0  every reward and its reason are as they were stored
  1  the environment's server or a worker can't start
  2  a mistake in the command, the config or the file; the rollouts are never changed
  3  some rollouts could not be scored, the others are as stored
  4  some rewards differ, or the reasons for them; each is printed with both reasons, and the new verdicts are in
     reverified.jsonl

example:
  paddock verify runs/demo                               (by the config that the run was made with)
  paddock verify runs/demo configs/demo.yaml pivot.resources_servers.pivot.comparator=layered"""

MAX_SHOWN = 50
AT_ONCE = 16
AT_ONCE_ON_CLUSTER = 64
"""As `eval.concurrency`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXITS
    parser.add_argument("rollouts", metavar="RUN_DIR|FILE", help="folder of a run, or a file of rollouts")
    parser.add_argument(
        "config", nargs="*", help="config files, and key.path=value overrides (default: the run's own config)"
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help=f"rollouts scored at once (default: {AT_ONCE}; with --cluster {AT_ONCE_ON_CLUSTER})",
    )
    workers.add_arguments(parser, "rollouts")
    parser.add_argument(
        "--timeout-s", type=float, default=600.0, metavar="S", help="seconds for one rollout (default: 600)"
    )


def _with_files(arguments: list[str], rollouts: Path) -> list[str]:
    """The arguments; where they name no file, the run's own config comes first."""
    from paddock.cli.configs import split_arguments
    from paddock.collect.folder import CONFIG

    own = rollouts / CONFIG
    return arguments if split_arguments(arguments).files or not own.is_file() else [str(own), *arguments]


def run(args: argparse.Namespace) -> int:
    from paddock.cli.configs import load_config
    from paddock.collect.reverify import reverify
    from paddock.errors import ConfigError, PaddockError

    spread = workers.worker_spread(args)
    concurrency = workers.items_at_once(args, "concurrency") or max(
        AT_ONCE if spread.cluster is None else AT_ONCE_ON_CLUSTER, spread.workers or 1
    )
    if args.timeout_s <= 0:
        raise ConfigError("--timeout-s needs more than 0", kind="flag_invalid")
    rollouts = Path(args.rollouts)
    config = load_config(_with_files(args.config, rollouts), modelless=True)
    work = reverify(config, rollouts, concurrency=concurrency, timeout_s=args.timeout_s, spread=spread)
    try:
        reverified = asyncio.run(work)
    except ConfigError:
        raise
    except PaddockError as error:
        print(f"paddock verify: {error}", file=sys.stderr)  # noqa: T201 - the command's voice
        return 1
    except KeyboardInterrupt:
        return 130
    shown = [*reverified.changed, *reverified.failed]
    for change in shown[:MAX_SHOWN]:
        print(change)  # noqa: T201 - the command's voice
    if len(shown) > MAX_SHOWN:
        print(f"and {len(shown) - MAX_SHOWN} more")  # noqa: T201 - the command's voice
    same = reverified.n - len(shown)
    counts = (
        f"{reverified.n} rollouts: {same} as stored, {len(reverified.changed)} verdicts differ, "
        f"{len(reverified.failed)} not scored"
    )
    print(f"{counts}; {reverified.path}")  # noqa: T201 - the command's voice
    return 4 if reverified.changed else 3 if reverified.failed else 0
