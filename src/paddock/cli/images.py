"""`paddock images`: pull, convert, list, recipe, build, spread, remove, prune; and the names that rows' images have.

Exit    0 all of it is done; 1 some images could not be had, each said with its reason, the others are done; 2 a mistake
        in the command or a file of rows; 130 interrupted: what was fetched is kept, no half image is listed.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.errors import ConfigError, describe

if TYPE_CHECKING:
    from paddock.sandbox.images import ImageLimits, ImageStore

SUBCOMMANDS = True

EXAMPLES = """examples:
  paddock images names --rows rows.jsonl --dataset swe_bench
  paddock images pull --rows rows.jsonl --jobs 4
  paddock images pull swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest
  paddock images convert saved.tar my/image:1            (docker save, OCI archive, OCI folder, root folder, .sif)
  paddock images convert docker://debian:12 debian.sif   (needs apptainer)
  paddock images recipe NAME==VERSION --python 3.11 --package pytest --out recipe.yaml
  paddock images build --rows rows.jsonl
  paddock images list

exit codes:
  0    done
  1    some images could not be had; each is named with its reason, the others are done
  2    a mistake in the command or the rows
  130  interrupted; what was fetched is kept and gone on with

Credentials are read from Docker's or podman's own files, or from PADDOCK_REGISTRY_HOST, _USER and _PASSWORD."""


RECIPES = (
    "A recipe says the Python version (`python`), the tree (`git`: repository and commit, or `sdist` and "
    "`sdist_sha256`), the pins (`pip`, with hashes or without) and the command that installs the tree without a "
    "network (`install`). A row of "
    "the own format has it as `build`, a row of any other form as `paddock`; a row that can't be read is named, the "
    "others are built. Of a repository only the commit's files are read: neither its configuration nor its hooks; one "
    "on this machine needs --local-repository. The install command runs in a sandbox without a network."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from paddock.cli import image_recipe, image_spread, local_repositories, workers

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    pull = commands.add_parser("pull", help="fetch images from registries, resumable")
    pull.add_argument("names", nargs="*", metavar="NAME", help="[host/]path[:tag][@digest]")
    _add_rows(pull)
    _add_fetching(pull)
    _add_limits(pull)
    pull.add_argument("--again", action="store_true", help="also those that the store has")

    convert = commands.add_parser("convert", help="turn any image into one of the store, or into a .sif")
    convert.add_argument("source", metavar="SRC", help="archive, folder, .sif, docker://NAME, or an image of the store")
    convert.add_argument("target", metavar="DST", help="FILE.sif, or a name for the store")
    _add_fetching(convert)
    _add_limits(convert)

    image_recipe.add_arguments(commands.add_parser("recipe", help="make a recipe: close its pins, find its hashes"))
    build = commands.add_parser("build", help="make images from recipes, without a registry", epilog=RECIPES)
    build.add_argument("recipe", nargs="?", metavar="RECIPE", help="a YAML or JSON file; with --name")
    build.add_argument("--name", metavar="NAME", help="what the store calls it")
    _add_rows(build)
    local_repositories.add_argument(build)
    _add_limits(build)
    build.add_argument(
        "--build-memory-mib",
        type=int,
        metavar="N",
        help="what the processes of one build may have together (default: 8192)",
    )
    build.add_argument("--build-pids", type=int, metavar="N", help="processes and threads of one build (default: 4096)")
    build.add_argument(
        "--require-hashes",
        action="store_true",
        help="refuse recipes whose pins have no hashes (default: they are named)",
    )
    build.add_argument("--jobs", type=int, metavar="N", help="images at once (default: one by each worker)")
    workers.add_arguments(build, "recipes")

    image_spread.add_arguments(commands.add_parser("spread", help="have nodes fetch images from their peers"))
    remove = commands.add_parser("remove", help="forget images, and the layers that no other image has")
    remove.add_argument("names", nargs="+", metavar="NAME", help="image to remove, as `list` names it")
    prune = commands.add_parser("prune", help="remove downloads and layers that no image needs")
    prune.add_argument("--all", action="store_true", help="also downloads that listed images were made from")
    names = commands.add_parser("names", help="print the names that rows' images have, one a line")
    _add_rows(names)
    commands.add_parser("list", help="name, size, layers and origin of each image")
    for command in commands.choices.values():
        command.add_argument(
            "--home", type=Path, metavar="DIR", help="the store (default: PADDOCK_HOME, or the user's)"
        )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--unpacked-mib",
        type=int,
        metavar="N",
        help="what an image's files, or a build's layer, may take (default: 65536)",
    )
    parser.add_argument(
        "--entries", type=int, metavar="N", help="files, folders and links that it may have (default: 5000000)"
    )


def _limits(args: argparse.Namespace) -> "ImageLimits":
    """Those that flags say."""
    from paddock.sandbox.images import ImageLimits

    given = {name: value for name in ImageLimits.model_fields if (value := getattr(args, name, None)) is not None}
    try:
        return ImageLimits.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"limits of an image: {describe(error)}", kind="limits") from None


def _add_rows(parser: argparse.ArgumentParser) -> None:
    from paddock.cli import publishers

    parser.add_argument("--rows", type=Path, metavar="FILE", help="JSONL rows whose images are meant")
    parser.add_argument(
        "--dataset", metavar="NAME", help="whose rule names them, e.g. swe_bench (default: as rows say)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows")
    publishers.add_argument(parser)


def _add_fetching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="images at once (default: 2)")
    parser.add_argument("--connections", type=int, default=4, metavar="N", help="downloads at once (default: 4)")
    parser.add_argument("--registry", metavar="PREFIX", help="host[:port][/path] to ask in place of the names' own")
    parser.add_argument(
        "--formatter",
        action="append",
        default=[],
        metavar="PLACE",
        help="where rows' images may be, with {instance_id}: /dir/{instance_id}.sif, /dir, docker://...; repeatable",
    )
    parser.add_argument(
        "--insecure", action="append", default=[], metavar="HOST", help="may be asked over plain http; repeatable"
    )


def run(args: argparse.Namespace) -> int:
    from paddock.cli import image_rows
    from paddock.sandbox import ImageDamaged
    from paddock.sandbox.images import ImageStore
    from paddock.sandbox.settings import SandboxSettings

    settings = SandboxSettings(home=args.home.absolute()) if args.home else SandboxSettings()
    store = ImageStore(settings.home, payload_id=settings.payload_id, limits=_limits(args))
    try:
        return _run(store, args)
    except OSError as error:
        image_rows.say(f"the store {store.home}: {error}")
    except ImageDamaged as error:
        image_rows.say(error.message)
    return 1


def _run(store: "ImageStore", args: argparse.Namespace) -> int:
    from paddock.cli import image_jobs, image_recipe, image_rows, image_spread

    match args.command:
        case "names":
            return image_rows.print_names(args)
        case "list":
            return image_rows.print_images(store)
        case "remove":
            return image_rows.remove(store, args.names)
        case "prune":
            return image_rows.prune_store(store, everything=args.all)
        case "recipe":
            return image_recipe.run(store, args)
        case "spread":
            return image_spread.run(args)
        case "pull":
            return image_jobs.pull(store, args)
        case "convert":
            return image_jobs.convert(store, args)
        case _:
            return image_jobs.build(store, args)
