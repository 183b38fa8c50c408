"""The recipes of the repository, read once each as a plan reads them."""

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from pytest import MonkeyPatch

from paddock.config.interpolation import Resolver
from paddock.config.trees import get_at, split
from paddock.config.yaml_text import parse
from paddock.training.grpo.compose import compose
from paddock.training.grpo.read_config import RunConfig, read_config, register_resolvers

FOLDER = Path(__file__).parents[3] / "configs/recipes"
SHARED = "no recipe itself"
"""Said in the first comment of a file that recipes are made of."""
GIVEN = {
    "MODEL_PATH": "/model",
    "TRAIN_PATH": "/rows/train.jsonl",
    "VAL_PATH": "/rows/val.jsonl",
    "SIF_DIR": "/images",
    "GENRM_URL": "http://judge:8000/v1",
}
"""What a user gives; the URLs of environments besides."""


class RecipeFile:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.composed = Resolver(compose([path], []).tree)
        """As written, with what it inherits."""

    @cached_property
    def read(self) -> RunConfig:
        """As it is where a user has given all but a model."""
        with MonkeyPatch.context() as patch:
            for variable, value in GIVEN.items():
                patch.setenv(variable, value)
            patch.delenv("MODEL_PATH")
            return read_config(self.path, plan=True)

    def value(self, key: str) -> Any:
        """Of the recipe's own key, or with `@` of a server's block; KeyError where it is not given."""
        if not key.startswith("@"):
            get_at(self.composed.tree, split(key))
            return self.composed.resolve(split(key))
        name, *path = split(key[1:])
        return get_at(self.read.environment.block(name), tuple(path))


def files() -> dict[str, Path]:
    """Recipes by their file's name, without those that others are made of, and without servers'."""
    found = sorted(FOLDER.rglob("*.yaml"))
    return {path.stem: path for path in found if SHARED not in comment(path).lower() and " train " in comment(path)}


def comment(path: Path) -> str:
    """The comment that a file begins with."""
    lines = path.read_text().splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(lines[:end])


@cache
def recipe(name: str) -> RecipeFile:
    register_resolvers()
    return RecipeFile(files()[name])


def written(read: RunConfig) -> Mapping[str, Any]:
    """The servers' config, unresolved."""
    return parse(read.environment.to_yaml(), "composed config").tree
