"""The alias table and the shipped configs against the plugins that read them."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from pydantic import BaseModel

from paddock.config import alias_table, load, resolve_class
from paddock.config.aliases import Implementation
from paddock.config.files import PACKAGE
from paddock.config.trees import KeyPath, split, walk
from paddock.config.validation import valid_keys

TABLE = alias_table()
IMPLEMENTATIONS = [
    pytest.param(kind, found, id=name) for kind, named in TABLE.implementations.items() for name, found in named.items()
]
SHIPPED = product(
    sorted(PACKAGE.glob("resources_servers/pivot/configs/*.yaml")),
    sorted(PACKAGE.glob("models_servers/openai/configs/*.yaml")),
)
GIVEN = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")


def config_type(name: str, kind: str) -> type[BaseModel]:
    """The settings of a plugin."""
    if not (PACKAGE / kind / name / "__init__.py").is_file():
        pytest.skip(f"the folder {kind}/{name} has no code")
    model: type[BaseModel] = resolve_class(name, kind).config_type
    return model


def our_keys(found: Implementation) -> Iterator[KeyPath]:
    """Every key of ours that an implementation of theirs is mapped to."""
    trees = [found.set, found.defaults]
    for key, rule in found.keys.items():
        trees += [case.set for case in rule.values or ()]
        if rule.to is not None:
            yield split(rule.to)
        for name, inner in (rule.items or {}).items():
            values = [case.set for case in inner.values or ()]
            yield from ((key, "0", one) for one in (inner.to, *(one for case in values for one in case)) if one)
            assert inner.here or inner.values or inner.inert, name
    for tree in trees:
        yield from (path for path, value in walk(tree) if path and not isinstance(value, dict))


@pytest.mark.parametrize(("kind", "found"), IMPLEMENTATIONS)
def test_every_key_that_one_of_theirs_is_mapped_to_is_a_key_of_the_plugin(kind: str, found: Implementation) -> None:
    model = config_type(found.to, kind)
    unknown = [path for path in our_keys(found) if path[-1] not in valid_keys(model, location(path[:-1]))]
    assert unknown == []
    if found.environment is not None:
        other = config_type(found.environment, "resources_servers")
        places = [split(rule.environment) for rule in found.keys.values() if rule.environment is not None]
        assert places
        assert [path for path in places if path[-1] not in valid_keys(other, path[:-1])] == []


def location(path: KeyPath) -> tuple[int | str, ...]:
    """A key path as pydantic has it."""
    return tuple(int(part) if part.isdigit() else part for part in path)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("agents/swe/configs/*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_swe_block_is_valid_for_its_plugin(path: Path) -> None:
    config = load([path, "models_servers/openai/configs/openai.yaml"], GIVEN, strict=True)
    assert config.notes == []
    for name, instance in config.instances.items():
        model = config_type(instance.implementation, instance.kind)
        assert isinstance(config.settings(name, model), model)


@pytest.mark.parametrize(
    ("pivot", "served"), [pytest.param(*pair, id=f"{pair[0].stem}-{pair[1].stem}") for pair in SHIPPED]
)
def test_every_shipped_block_is_valid_for_its_plugin(pivot: Path, served: Path) -> None:
    config = load([pivot, served], GIVEN)
    for name, instance in config.instances.items():
        model = config_type(instance.implementation, instance.kind)
        assert isinstance(config.settings(name, model), model)
