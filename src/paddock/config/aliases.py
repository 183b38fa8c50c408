"""The alias table: NeMo-Gym's names, and what each is here. `aliases.yaml` has the data, in the form of `AliasTable`.

Law     a key of NeMo-Gym's is mapped (`to`, `environment`, `values`, `items`), inert (accepted in a NeMo-Gym block and
        named in the notes) or `trainer` (another program's key). Any other is passed on, and refused where nothing has
        that name.
Errors  a table that does not fit this form raises pydantic's ValidationError when it is first read.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from paddock.config.trees import KeyPath, split
from paddock.config.yaml_text import read_document
from paddock.types import JsonObject, Record

_TABLE = Path(__file__).with_name("aliases.yaml")
HOLDER = "_environment"
"""The key of an agent's block that holds its environment's keys until it is known which server that is."""


class ValueRule(Record):
    """What one value of a NeMo-Gym key means here."""

    when: Any
    set: JsonObject
    """Our keys and values; empty: none is needed."""


class KeyRule(Record):
    """What one NeMo-Gym key means here. Has one of the first six fields, or both of the first two: then both keys get
    the value."""

    to: str | None = None
    """Our key that takes the value; dots nest."""
    environment: str | None = None
    """The key of the agent's resources server that takes the value; dots nest."""
    values: list[ValueRule] | None = None
    """The key is a choice: a rule for each of its values."""
    items: dict[str, "KeyRule"] | None = None
    """The key keeps its name; these rules hold inside each item of its list."""
    inert: str | None = None
    """Why the key has no effect here."""
    trainer: str | None = None
    """What the trainer does with the key."""
    only: list[Any] | None = None
    """The values for which the key is inert; None: any value."""

    @model_validator(mode="after")
    def _single_meaning(self) -> Self:
        kinds = ("to", "environment", "values", "items", "inert", "trainer")
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1 and given != ["to", "environment"]:
            raise ValueError(f"needs exactly one of {', '.join(kinds)}; has {given}")
        if self.only is not None and self.inert is None:
            raise ValueError("`only` belongs to `inert`")
        return self

    @property
    def target(self) -> KeyPath | None:
        """Where the value is in our block; None: it is not taken over as it is."""
        if self.to is not None:
            return split(self.to)
        return (HOLDER, *split(self.environment)) if self.environment is not None else None

    @property
    def here(self) -> str | None:
        """Our keys, in words; None: there is none."""
        own = [f"`{self.to}`"] if self.to is not None else []
        other = [f"`{self.environment}` of its resources server"] if self.environment is not None else []
        return " and ".join([*own, *other]) or None


class Implementation(Record):
    """What a NeMo-Gym implementation is here."""

    to: str
    """Our plugin folder."""
    set: JsonObject = Field(default_factory=dict)
    """Our keys that their implementation implies; a block's own values win."""
    defaults: JsonObject = Field(default_factory=dict)
    """Values of our keys that no file sets."""
    environment: str | None = None
    """The resources server that it has inside; here it is one beside the agent. None: there is none."""
    one_step: str | None = None
    """Our plugin folder instead of `to` where the agent's resources server judges one answer and runs no tool; it has
    no keys of `set` and `defaults`. None: it is `to` everywhere."""
    differs: str = ""
    """In words, how results differ from theirs, for the note of each such block; empty: they don't."""
    keys: dict[str, KeyRule] = Field(default_factory=dict)


class AliasTable(Record):
    """NeMo-Gym's names by kind, and what each is here."""

    server_types: dict[str, str]
    inert_types: dict[str, str]
    """NeMo-Gym server types that nothing is served for, and why."""
    common_keys: dict[str, KeyRule]
    """Rules for a block of any implementation."""
    implementations: dict[str, dict[str, Implementation]]
    """By our server type, then by NeMo-Gym's implementation name."""
    paths: dict[str, str]
    top_keys: dict[str, KeyRule]
    env_keys: dict[str, KeyRule]
    """Keys of a recipe's `env` block, beside `nemo_gym`."""

    def kind(self, name: str) -> str:
        """Our name of a server type, given either name."""
        return self.server_types.get(name, name)

    def implementation(self, kind: str, name: str) -> Implementation | None:
        """What `name` of our server type `kind` is here; None: it is no name of NeMo-Gym's."""
        return self.implementations.get(kind, {}).get(name)

    def rules(self, kind: str, name: str) -> Mapping[str, KeyRule]:
        """Rules for the keys of a block that was written with NeMo-Gym's names."""
        implementation = self.implementation(kind, name)
        return {**self.common_keys, **(implementation.keys if implementation else {})}

    def rules_of(self, key: str) -> Iterator[KeyRule]:
        """Every rule for a key of that name, in a block, an item of a list, or at the top level."""
        tables = [self.common_keys, self.top_keys]
        tables += [rules.keys for by_name in self.implementations.values() for rules in by_name.values()]
        tables += [rule.items for keys in tables for rule in keys.values() if rule.items is not None]
        return (keys[key] for keys in tables if key in keys)

    def key_path(self, path: KeyPath) -> KeyPath:
        """A key path in our names; one that is in our names already is returned as it is."""
        if path[:2] == ("env", "nemo_gym") and len(path) > 2:
            path = path[2:]
        if len(path) < 2 or (path[1] not in self.server_types and path[1] not in self.implementations):
            return path
        kind = self.kind(path[1])
        if len(path) < 3:
            return (path[0], kind)
        implementation = self.implementation(kind, path[2])
        rule = implementation.keys.get(path[3]) if implementation and len(path) > 3 else None
        target = rule.target if rule else None
        rest = (*target, *path[4:]) if target else path[3:]
        return (path[0], kind, implementation.to if implementation else path[2], *rest)


@cache
def alias_table() -> AliasTable:
    """The table that ships with the package."""
    return AliasTable.model_validate(read_document(_TABLE, _TABLE.name).tree)
