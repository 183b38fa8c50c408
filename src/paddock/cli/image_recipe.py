"""`paddock images recipe SOURCE`: a recipe is made, not typed: pins are closed, distributions and their hashes found.

Output  the recipe as YAML, on stdout or in `--out`; `paddock images build` reads it, and it can stand in a row.
"""

import argparse
import asyncio
from pathlib import Path

import yaml

from paddock.cli.image_rows import say
from paddock.errors import ConfigError, PaddockError
from paddock.sandbox.images import ImageStore

INSTALL = "python -m pip install -q --no-deps --no-build-isolation -e ."
EPILOG = """examples:
  paddock images recipe flask==2.2.2 --python 3.9 --package pytest --before 2022-09-01 --out flask.yaml
  paddock images recipe ~/src/project@4f1c2d --python 3.9 --requirement ~/src/project/requirements-dev.txt
  paddock images recipe ~/src/project@4f1c2d --environment ~/src/project/.venv/bin/python
  paddock images build flask.yaml --name my/flask
  paddock images build project.yaml --name my/project --local-repository ~/src

Pins come from wheels alone, resolved by uv (pip install 'paddock[recipes]'). Where a requirement has none, install it
once by hand and name that environment."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("source", metavar="SOURCE", help="name==version of a source distribution, or REPOSITORY@COMMIT")
    parser.add_argument("--python", metavar="3.N", help="the image's Python (default: the environment's)")
    parser.add_argument(
        "--package", action="append", default=[], metavar="REQUIREMENT", help="what tests need; repeatable"
    )
    parser.add_argument(
        "--requirement", action="append", default=[], type=Path, metavar="FILE", help="a requirements file; repeatable"
    )
    parser.add_argument(
        "--before", metavar="YYYY-MM-DD", help="of what the index had before that day: an old tree wants old packages"
    )
    parser.add_argument("--environment", metavar="PYTHON", help="take the packages of this environment as they are")
    parser.add_argument(
        "--install", default=INSTALL, metavar="COMMAND", help="installs the tree (default: %(default)s)"
    )
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="for the install; repeatable")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the recipe there")


def run(store: ImageStore, args: argparse.Namespace) -> int:
    from paddock.sandbox.images.build.recipe_maker import RecipeNeeds, make_recipe

    if args.environment and (args.package or args.requirement or args.before):
        raise ConfigError("--environment is taken as it is: no --package, --requirement or --before", kind="flags")
    env = {}
    for pair in args.env:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--env {pair}: needs KEY=VALUE", kind="flags")
        env[key] = value
    for file in args.requirement:
        if not file.is_file():
            raise ConfigError(f"--requirement {file}: no such file", kind="flags")
    needs = RecipeNeeds(args.package, args.requirement, args.before, args.environment)
    try:
        making = make_recipe(store, args.source, args.python, needs, install=args.install, env=env, progress=say)
        recipe = asyncio.run(making)
    except PaddockError as error:
        say(f"{args.source}: {error.message}")
        return 1
    text = yaml.safe_dump(recipe.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
    if args.out is None:
        print(text, end="")  # noqa: T201 - the command's voice
    else:
        args.out.write_text(text)
    return 0
