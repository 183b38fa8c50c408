"""The alias table: NeMo-Gym's names, and what each is here. The data is `aliases.yaml`; this is its form.

Law     a key of theirs is mapped (`to`, `environment`, `values`, `items`), inert (accepted in a block of theirs and
        named in the notes) or `trainer` (another program's key). Any other is passed on, and refused where nothing has
        that name.
Errors  a table that does not fit this form raises pydantic's ValidationError when it is first read.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from paddock.config.reading import read
from paddock.config.trees import KeyPath, split
from paddock.types import JsonObject, Record

_TABLE = Path(__file__).with_name("aliases.yaml")
HOLDER = "_environment"
"""Where an agent's block keeps keys of its environment until it is known which server that is."""


class Case(Record):
    """What one value of a key of theirs means here."""

    when: Any
    set: JsonObject
    """Keys of ours; empty: nothing needs to be said."""


class KeyRule(Record):
    """What becomes of one key of theirs. One of the first six is given; or both of the first two, which then share."""

    to: str | None = None
    """The key of ours that takes the value; dots nest."""
    environment: str | None = None
    """The key of the agent's resources server that takes the value; dots nest."""
    values: list[Case] | None = None
    """The key of theirs is a choice; each of its values is spelt out."""
    items: dict[str, "KeyRule"] | None = None
    """The key keeps its name; these rules hold inside each item of its list."""
    inert: str | None = None
    """Why the key says nothing here."""
    trainer: str | None = None
    """What the trainer does with the key."""
    only: list[Any] | None = None
    """The values for which the key is inert; None: any value."""

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        kinds = ("to", "environment", "values", "items", "inert", "trainer")
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) != 1 and given != ["to", "environment"]:
            raise ValueError(f"needs exactly one of {', '.join(kinds)}; has {given}")
        if self.only is not None and self.inert is None:
            raise ValueError("`only` belongs to `inert`")
        return self

    @property
    def place(self) -> KeyPath | None:
        """Where the value is in a block of ours; None: nowhere as it is."""
        if self.to is not None:
            return split(self.to)
        return (HOLDER, *split(self.environment)) if self.environment is not None else None

    @property
    def here(self) -> str | None:
        """The keys of ours, in words; None: there is none."""
        own = [f"`{self.to}`"] if self.to is not None else []
        other = [f"`{self.environment}` of its resources server"] if self.environment is not None else []
        return " and ".join([*own, *other]) or None


class Implementation(Record):
    """What an implementation of theirs is here."""

    to: str
    """The plugin folder of ours."""
    set: JsonObject = Field(default_factory=dict)
    """Keys of ours that their implementation implies; what a block says itself wins."""
    defaults: JsonObject = Field(default_factory=dict)
    """Keys of ours where neither their file nor one of ours says them."""
    environment: str | None = None
    """The resources server that theirs has inside; here it is one beside the agent. None: there is none."""
    differs: str = ""
    """What comes out otherwise than with theirs, for the note of each block that is read as ours; empty: nothing."""
    keys: dict[str, KeyRule] = Field(default_factory=dict)


class AliasTable(Record):
    server_types: dict[str, str]
    inert_types: dict[str, str]
    """Their server types that nothing is served for, and why."""
    common_keys: dict[str, KeyRule]
    """Rules for a block of any implementation."""
    implementations: dict[str, dict[str, Implementation]]
    """By our server type, then by their implementation name."""
    paths: dict[str, str]
    top_keys: dict[str, KeyRule]
    env_keys: dict[str, KeyRule]
    """Keys of a recipe's `env` block, beside `nemo_gym`."""

    def kind(self, name: str) -> str:
        """Our name of a server type, given either name."""
        return self.server_types.get(name, name)

    def implementation(self, kind: str, name: str) -> Implementation | None:
        """What `name` of our server type `kind` is here; None: it is no name of theirs."""
        return self.implementations.get(kind, {}).get(name)

    def rules(self, kind: str, name: str) -> Mapping[str, KeyRule]:
        """Rules for the keys of a block that was written with their names."""
        found = self.implementation(kind, name)
        return {**self.common_keys, **(found.keys if found else {})}

    def rules_of(self, key: str) -> Iterator[KeyRule]:
        """Every rule for a key of that name, in a block, an item of a list, or at the top level."""
        tables = [self.common_keys, self.top_keys]
        tables += [found.keys for named in self.implementations.values() for found in named.values()]
        tables += [rule.items for keys in tables for rule in keys.values() if rule.items is not None]
        return (keys[key] for keys in tables if key in keys)

    def key_path(self, path: KeyPath) -> KeyPath:
        """A key path in our names; a path of ours is itself."""
        if path[:2] == ("env", "nemo_gym") and len(path) > 2:
            path = path[2:]
        if len(path) < 2 or (path[1] not in self.server_types and path[1] not in self.implementations):
            return path
        kind = self.kind(path[1])
        if len(path) < 3:
            return (path[0], kind)
        found = self.implementation(kind, path[2])
        rule = found.keys.get(path[3]) if found and len(path) > 3 else None
        place = rule.place if rule else None
        rest = (*place, *path[4:]) if place else path[3:]
        return (path[0], kind, found.to if found else path[2], *rest)


@cache
def alias_table() -> AliasTable:
    """The table that ships with the package."""
    return AliasTable.model_validate(read(_TABLE, _TABLE.name).tree)
