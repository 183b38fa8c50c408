"""`--workers N` and `--cluster ADDRESS`, of commands whose items worker processes make."""

import argparse
from typing import TYPE_CHECKING

from paddock.errors import ConfigError

if TYPE_CHECKING:
    from paddock.collect.items import WorkerSpread


def add_arguments(parser: argparse.ArgumentParser, items: str) -> None:
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help=f"processes that {items} are shared by (default: 1)"
    )
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="Ray cluster on whose nodes the workers are: HOST:PORT or `auto`"
    )


def worker_spread(args: argparse.Namespace) -> "WorkerSpread":
    from paddock.collect.items import WorkerSpread

    if args.workers < 1:
        raise ConfigError("--workers needs 1 or more", kind="flag_invalid")
    return WorkerSpread(workers=args.workers, cluster=args.cluster)


def items_at_once(args: argparse.Namespace, flag: str, default: int) -> int:
    """How many items all workers have at once: as the flag says, else `default`, but one for each worker."""
    given: int | None = getattr(args, flag)
    if given is None:
        return max(default, int(args.workers))
    if given < 1:
        raise ConfigError(f"--{flag} needs 1 or more", kind="flag_invalid")
    return given
