"""Reads files and overrides into the settings of a fine-tuning run.

Forms   YAML, as of `paddock train`: `defaults`, interpolations, `key.path=value`. Keys of NeMo-RL's recipes are read,
        have no effect, or are refused as there (`grpo/recipe.yaml`), so that the `policy` block of a recipe is taken as
        it is.
Errors  ConfigError with every problem: where, the key, and the nearest right one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from paddock.config import Note
from paddock.config.interpolation import Resolver
from paddock.config.overrides import parse_overrides
from paddock.config.problems import raise_all
from paddock.config.validation import explain
from paddock.training.grpo.compose import ConfigTree, compose
from paddock.training.grpo.read_config import register_resolvers
from paddock.training.grpo.recipe import translate
from paddock.training.sft.config import SftConfig
from paddock.types import JsonObject


class SftRunConfig(NamedTuple):
    """What `paddock sft` is given."""

    config: SftConfig
    notes: list[Note]
    """Keys that were read other than written; `inert`: the key has no effect here."""
    name: str
    """The stem of the first file's name."""


def read_sft_config(
    files: Sequence[str | Path], overrides: Sequence[str] = (), *, strict: bool = False
) -> SftRunConfig:
    """The config of a run. `strict` refuses keys that have no effect here."""
    composed = compose(files, parse_overrides(overrides))
    register_resolvers()
    translated = translate(composed.tree, composed, Resolver(composed.tree))
    config = _validate(translated.tree, composed, translated.problems)
    if strict:
        raise_all(f"{note}; --strict refuses it" for note in translated.notes if note.kind == "inert")
    return SftRunConfig(config, translated.notes, Path(files[0]).stem)


def _validate(tree: JsonObject, composed: ConfigTree, problems: Sequence[str]) -> SftConfig:
    raise_all(problems)
    try:
        return SftConfig.model_validate(tree)
    except ValidationError as error:
        raise_all(f"{composed.origin(path)}: {text}" for path, text in explain(error, SftConfig, tree, ()))
        raise
