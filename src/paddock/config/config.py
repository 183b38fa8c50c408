"""A composed config: its instances, their blocks, and the YAML in which it is passed to other processes.

Law     nothing here holds a value of the environment: a block and a top-level value are resolved when they are asked
        for, and `to_yaml` writes interpolations as they are.
Errors  ConfigError, naming the key path and the file that gave it.
"""

from collections.abc import Collection, Iterable
from typing import Any, Self

from pydantic import ValidationError

from paddock.config.aliases import alias_table
from paddock.config.final import Composition, FinalConfig, finalize
from paddock.config.interpolation import Resolver
from paddock.config.problems import invalid, raise_all, suggestion
from paddock.config.references import bad_references, references
from paddock.config.settings import Instance, Note, RunSettings
from paddock.config.trees import KeyPath
from paddock.config.validation import ModelT, explain
from paddock.config.yaml_text import dump, parse
from paddock.errors import ConfigError
from paddock.types import JsonObject


class Config:
    """A checked config. Made by `load` or `from_yaml`."""

    def __init__(self, final: FinalConfig) -> None:
        self.instances: dict[str, Instance] = final.instances
        """By name, in the order of the files."""
        self.notes: list[Note] = final.notes
        """Keys that were read in another way than written."""
        self._tree = final.tree
        self._origin = final.origin
        self._resolver = Resolver(final.tree)
        self._resolver.check()

    def instance(self, name: str) -> Instance:
        """The instance `name`; ConfigError names the nearest."""
        if name not in self.instances:
            hint = suggestion(name, self.instances, label="instances")
            raise ConfigError(f"no instance `{name}`{hint}", kind="unknown_instance")
        return self.instances[name]

    def block(self, name: str) -> JsonObject:
        """The fields of an instance, resolved now; ConfigError lists every value that can't be."""
        path = self._path(name)
        block: JsonObject = self._resolver.resolve(path)
        raise_all(text for _, text in bad_references(block, path, self.instances, ()))
        return block

    def settings(self, name: str, model: type[ModelT]) -> ModelT:
        """The fields of an instance as a `model`."""
        path = self._path(name)
        block = self.block(name)
        try:
            return model.model_validate(block)
        except ValidationError as error:
            problems = [f"{self._origin(key_path)}: {text}" for key_path, text in explain(error, model, block, path)]
        raise invalid(problems)

    def references(self, name: str) -> list[str]:
        """The instances that an instance's block names, in order, each once."""
        every = references(self._resolver.collect(self._path(name), []), ())
        return list(dict.fromkeys(reference.name for reference in every if reference.name in self.instances))

    def needed(self, names: Iterable[str]) -> list[str]:
        """`names` and all that they reference, directly or not; each once."""
        out: list[str] = []
        pending = list(names)
        while pending:
            name = self.instance(pending.pop(0)).name
            if name not in out:
                out.append(name)
                pending += self.references(name)
        return out

    def require(self, names: Iterable[str] | None = None) -> None:
        """ConfigError with every unset or unresolvable value of the blocks of `names`; None: of all instances."""
        problems: list[str] = []
        for name in self.instances if names is None else names:
            self._resolver.collect(self._path(name), problems)
        raise_all(problems, kind="unresolved")

    def top(self, key: str) -> Any:
        """A top-level value, resolved now; its default where the config does not give it."""
        if key not in RunSettings.model_fields:
            hint = suggestion(key, RunSettings.model_fields)
            raise ConfigError(f"no top-level key `{key}`{hint}", kind="unknown_key")
        if key not in self._tree:
            return RunSettings.model_fields[key].get_default(call_default_factory=True)
        return self._resolver.resolve((key,))

    def to_yaml(self) -> str:
        """The composed config, unresolved: no value of the environment is in it."""
        return dump(self._tree)

    @classmethod
    def from_yaml(cls, text: str, *, servers: Collection[str] | None = None) -> Self:
        """The config that `to_yaml` wrote; `servers` as for `load`."""
        document = parse(text, "composed config")
        composed = Composition(tree=document.tree)
        composed.origins = {path: f"composed config:{line}" for path, line in document.lines.items()}
        return cls(finalize(composed, alias_table(), servers))

    def _path(self, name: str) -> KeyPath:
        instance = self.instance(name)
        return (name, instance.kind, instance.implementation)
