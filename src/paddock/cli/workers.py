"""`--workers N`, `--cluster ADDRESS` and `--cluster-label KEY=VALUE`, of commands whose items worker processes make."""

import argparse
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.errors import ConfigError

if TYPE_CHECKING:
    from paddock.collect.worker_spread import WorkerSpread


def add_arguments(parser: argparse.ArgumentParser, items: str) -> None:
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help=f"processes that {items} are shared by (default: 1; with --cluster, as many as it has CPUs)",
    )
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="Ray cluster on whose nodes the workers are: HOST:PORT or `auto`"
    )
    parser.add_argument(
        "--cluster-label",
        metavar="KEY=VALUE",
        help="label of the cluster's nodes that workers may be on (default: any)",
    )


def worker_spread(args: argparse.Namespace) -> "WorkerSpread":
    from paddock.collect.worker_spread import WorkerSpread

    if args.workers is not None and args.workers < 1:
        raise ConfigError("--workers needs 1 or more", kind="flag_invalid")
    if args.cluster_label is not None and args.cluster is None:
        raise ConfigError("--cluster-label needs --cluster", kind="flag_invalid")
    try:
        return WorkerSpread(workers=args.workers, cluster=args.cluster, cluster_label=args.cluster_label)
    except ValidationError as error:
        flag = str(error.errors()[0]["loc"][0]).replace("_", "-")
        raise ConfigError(f"--{flag}: {error.errors()[0]['msg']}", kind="flag_invalid") from None


def items_at_once(args: argparse.Namespace, flag: str) -> int | None:
    """How many items all workers have at once, as the flag says; None: it was not given."""
    given: int | None = getattr(args, flag)
    if given is not None and given < 1:
        raise ConfigError(f"--{flag} needs 1 or more", kind="flag_invalid")
    return given
