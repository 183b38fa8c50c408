"""Reads files and overrides into the settings of a run and the config of its servers.

Forms   YAML in NeMo-RL's blocks. `env.nemo_gym` is a config of servers (`paddock.config`: `config_paths`, NeMo-Gym's
        names, directives); `policy.generation.vllm` is laid over its model server. An override is `key.path=value`,
        `+key.path=value` or `~key.path`; one of a server, or below `env.nemo_gym`, is carried out by that config.
Law     every key is known: ours, or a recipe's with an entry in `recipe.yaml`. Variables of the environment in
        `env.nemo_gym` and `policy.generation.vllm` are read when servers start; everywhere else now.
Errors  ConfigError with every problem: where, the key, and the nearest right one.
"""

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from paddock.config import KINDS, Config, Note, RunSettings, alias_table, nearest
from paddock.config.interpolation import Resolver
from paddock.config.overrides import Override, parse_overrides
from paddock.config.problems import raise_all
from paddock.config.trees import REFERENCE, KeyPath, dotted, get_at, split, strings
from paddock.config.validation import explain, valid_keys
from paddock.training.grpo.compose import ConfigTree, compose
from paddock.training.grpo.config import DetectionConfig, TrainConfig
from paddock.training.grpo.model_server import compose_servers
from paddock.training.grpo.preflight import UnsetVariable, replace_unset
from paddock.training.grpo.recipe import in_recipes, other_algorithm, recipe_keys, rule_for, translate
from paddock.training.grpo.recipe_source import UnreadKey, deviation_lines, deviation_problems, unread_keys
from paddock.types import JsonObject

_SERVERS: KeyPath = ("env", "nemo_gym")


class RunConfig(NamedTuple):
    """What `paddock train` is given: the settings, and what was noted while they were read."""

    config: TrainConfig
    environment: Config
    """The config of the servers."""
    notes: list[Note]
    """Keys that were read other than written; `inert`: the key has no effect here."""
    model_server: str
    """The name of the model server that is trained."""
    name: str
    """The stem of the first file's name."""
    unread_keys: list[UnreadKey]
    """Keys that the trainer that the recipe was written for does not read."""
    deviations: list[str]
    """Lines about what differs from the recipe's source; empty where the recipe names none."""
    unset_variables: list[UnsetVariable]
    """Variables that are not set and stand as `$NAME`; in a plan alone."""


def read_config(
    paths: str | Path | Sequence[str | Path],
    overrides: Sequence[str] = (),
    *,
    strict: bool = False,
    plan: bool = False,
) -> RunConfig:
    """The config of a run. `strict` refuses keys that have no effect here; `plan` allows variables that are not set.
    ConfigError with every problem."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    changes = parse_overrides(overrides)
    composed = compose(files, [change for change in changes if not _of_servers(change)])
    raise_all(other_algorithm(composed.tree))
    register_resolvers()
    unset_variables = replace_unset(composed.tree) if plan else []
    parts = _parts(composed.tree)
    translated = translate(parts.own, composed, Resolver(composed.tree))
    config = _validate(translated.tree, composed, translated.problems)
    recipe = config.paddock.recipe
    raise_all(deviation_problems(recipe, composed))
    servers = compose_servers(
        {key: value for key, value in composed.tree.items() if key != "env"},
        parts.servers,
        config,
        [text for text, change in zip(overrides, changes, strict=True) if _of_servers(change)],
        plan=plan,
    )
    notes = [*translated.notes, *servers.notes]
    if strict:
        raise_all(f"{note}; --strict refuses it" for note in notes if note.kind == "inert")
    return RunConfig(
        config,
        servers.environment,
        notes,
        servers.model_server,
        Path(files[0]).stem,
        unread_keys(composed.tree),
        list(deviation_lines(recipe, composed.tree)) if recipe is not None else [],
        unset_variables,
    )


def _of_servers(change: Override) -> bool:
    """Whether an override is one of the servers' config."""
    path = change.path
    if path[:2] == _SERVERS and len(path) > 2:
        return path[2] != "config_paths" and not _of_trainer(path[2])
    kinds = {*KINDS, *alias_table().server_types}
    return path[0] in RunSettings.model_fields or (len(path) > 1 and path[1] in kinds)


def _of_trainer(key: str) -> bool:
    """Whether a key of `env.nemo_gym` is the trainer's."""
    return key in DetectionConfig.model_fields or rule_for((*_SERVERS, key)) is not None


class _TreeParts(NamedTuple):
    own: JsonObject
    """The trainer's part of the tree."""
    servers: JsonObject
    """The servers' part of `env.nemo_gym`."""


def _parts(tree: JsonObject) -> _TreeParts:
    variables = set(_variables(tree))
    own = {key: value for key, value in tree.items() if key not in variables}
    env: Any = tree.get("env")
    nemo_gym: Any = env.get("nemo_gym") if isinstance(env, dict) else None
    if not isinstance(env, dict) or not isinstance(nemo_gym, dict):
        raise_all(["`env.nemo_gym` is required: a config of servers, such as `config_paths: [...]`"])
    trainer_keys = {key: value for key, value in nemo_gym.items() if _of_trainer(key) and value is not None}
    own["env"] = {**env, "nemo_gym": trainer_keys}
    return _TreeParts(own, {key: value for key, value in nemo_gym.items() if not _of_trainer(key)})


def _variables(tree: JsonObject) -> Iterator[str]:
    """Top-level keys of no block of settings that an interpolation reads."""
    read = {split(reference)[0] for _, text in strings(tree) for reference in REFERENCE.findall(text)}
    for key in tree:
        if key in read and key not in TrainConfig.model_fields and not in_recipes((key,)):
            yield key


def register_resolvers() -> None:
    """The functions that recipes use in interpolations."""
    from omegaconf import OmegaConf

    resolvers: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "max": lambda a, b: a if a > b else b,
    }
    register = register_of(OmegaConf)
    for name, function in resolvers.items():
        if not OmegaConf.has_resolver(name):
            register(name, function)


def register_of(api: Any) -> Callable[[str, Callable[..., Any]], None]:
    """OmegaConf's registration of functions that get their arguments with their types: since 2.4 `register_resolver`.
    In 2.3 that name is an older function, which gives strings and has no `replace`; there it is
    `register_new_resolver`."""
    register_resolver = api.register_resolver
    is_typed = "replace" in signature(register_resolver).parameters
    register: Callable[[str, Callable[..., Any]], None] = register_resolver if is_typed else api.register_new_resolver
    return register


def _validate(tree: JsonObject, composed: ConfigTree, problems: Sequence[str]) -> TrainConfig:
    try:
        config = TrainConfig.model_validate(tree)
    except ValidationError as error:
        # A key that could not be resolved has no value: that its type is wrong would be noise.
        invalid = [
            problem.text
            for problem in _problems(error, tree, composed)
            if not any(text.startswith(f"`{problem.key}`") for text in problems)
        ]
        raise_all([*problems, *invalid])
        raise
    raise_all(problems)
    return config


class _Problem(NamedTuple):
    text: str
    key: str


def _problems(error: ValidationError, tree: JsonObject, composed: ConfigTree) -> Iterator[_Problem]:
    explained = explain(error, TrainConfig, tree, ())
    for item, (path, text) in zip(error.errors(include_url=False), explained, strict=True):
        where = composed.origin(path)
        if item["type"] == "extra_forbidden":
            for stray in _strays(path, get_at(tree, path)):
                yield _Problem(f"{composed.origin(stray)}: unknown key `{dotted(stray)}`{_hint(stray)}", dotted(stray))
        elif item["type"] == "value_error":
            reason = str(item["ctx"]["error"]) if "ctx" in item else item["msg"]
            yield _Problem(f"{where}: `{dotted(path)}`: {reason}" if path else reason, dotted(path))
        else:
            yield _Problem(f"{where}: {text}", dotted(path))


def _strays(path: KeyPath, node: Any) -> Iterator[KeyPath]:
    """The unknown keys: those below a block of the recipes, else the key itself."""
    if isinstance(node, dict) and in_recipes(path):
        for key, value in node.items():
            yield from _strays((*path, key), value)
    else:
        yield path


def _hint(path: KeyPath) -> str:
    ours = valid_keys(TrainConfig, path[:-1]) if not in_recipes(path[:-1]) or _is_block(path[:-1]) else []
    close = nearest(path[-1], [*ours, *recipe_keys(path[:-1])])
    near = f"; nearest: `{dotted((*path[:-1], close))}`" if close else ""
    return near + (f"; valid: {', '.join(ours)}" if ours else "")


def _is_block(path: KeyPath) -> bool:
    """Whether the settings have a block of that path."""
    return all(key in valid_keys(TrainConfig, path[:depth]) for depth, key in enumerate(path))
