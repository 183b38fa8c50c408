"""`--local-repository FOLDER`: where the repositories lie that recipes may name by a path of this machine."""

import argparse
from pathlib import Path

from paddock.errors import ConfigError


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--local-repository",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="recipes may name git repositories in or below it, by path or file:// URL (default: none may); repeatable",
    )


def local_repositories(args: argparse.Namespace) -> list[Path]:
    """The folders, absolute; ConfigError when one is not there."""
    for folder in args.local_repository:
        if not folder.is_dir():
            raise ConfigError(f"--local-repository {folder}: no such folder", kind="flag_invalid")
    return [folder.resolve() for folder in args.local_repository]
