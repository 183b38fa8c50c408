"""The alias table and the shipped configs against the plugins that read them."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from pydantic import BaseModel

from paddock.config import alias_table, load, resolve_class
from paddock.config.aliases import Implementation
from paddock.config.checking import valid_keys
from paddock.config.finding import PACKAGE
from paddock.config.trees import KeyPath, split, walk

TABLE = alias_table()
IMPLEMENTATIONS = [
    pytest.param(kind, found, id=name) for kind, named in TABLE.implementations.items() for name, found in named.items()
]
SHIPPED = product(
    sorted(PACKAGE.glob("resources_servers/pivot/configs/*.yaml")),
    sorted(PACKAGE.glob("models_servers/openai/configs/*.yaml")),
)


def config_type(name: str, kind: str) -> type[BaseModel]:
    """The settings of a plugin."""
    if not (PACKAGE / kind / name / "__init__.py").is_file():
        pytest.skip(f"the folder {kind}/{name} has no code")
    model: type[BaseModel] = resolve_class(name, kind).config_type
    return model


def our_keys(found: Implementation) -> Iterator[KeyPath]:
    """Every key of ours that an implementation of theirs is mapped to."""
    trees = [found.set]
    for rule in found.keys.values():
        trees += [case.set for case in rule.values or ()]
        if rule.to is not None:
            yield split(rule.to)
    for tree in trees:
        yield from (path for path, value in walk(tree) if path and not isinstance(value, dict))


@pytest.mark.parametrize(("kind", "found"), IMPLEMENTATIONS)
def test_every_key_that_one_of_theirs_is_mapped_to_is_a_key_of_the_plugin(kind: str, found: Implementation) -> None:
    model = config_type(found.to, kind)
    unknown = [path for path in our_keys(found) if path[-1] not in valid_keys(model, path[:-1])]
    assert unknown == []


@pytest.mark.parametrize(
    ("pivot", "served"), [pytest.param(*pair, id=f"{pair[0].stem}-{pair[1].stem}") for pair in SHIPPED]
)
def test_every_shipped_block_is_valid_for_its_plugin(pivot: Path, served: Path) -> None:
    given = ["policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m"]
    config = load([pivot, served], given)
    for name, instance in config.instances.items():
        model = config_type(instance.implementation, instance.kind)
        assert isinstance(config.settings(name, model), model)
