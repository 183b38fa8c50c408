"""`--publisher KEY=PATH`: where the publishers' own code is, by which rows of some data sets are graded."""

import argparse
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.errors import ConfigError, describe

if TYPE_CHECKING:
    from paddock.resources_servers.swe.publishers import PublisherTools


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--publisher",
        action="append",
        default=[],
        metavar="KEY=PATH",
        help="a key of a server's `publishers`: swe_bench_pro, swe_rebench_v2 (checkouts), python, nemo_gym_python "
        "(interpreters); repeatable",
    )


def publishers(args: argparse.Namespace) -> "PublisherTools":
    """The folders and interpreters; ConfigError for a key that there is not."""
    from paddock.resources_servers.swe.publishers import PublisherTools

    given = dict(pair.split("=", maxsplit=1) if "=" in pair else (pair, None) for pair in args.publisher)
    if bare := [key for key, path in given.items() if not path]:
        raise ConfigError(f"--publisher {bare[0]}: needs KEY=PATH", kind="flag_invalid")
    try:
        return PublisherTools.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"--publisher: {describe(error)}", kind="flag_invalid") from None
