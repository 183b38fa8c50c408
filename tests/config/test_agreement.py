"""The alias table and the shipped configs against the plugins that read them."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

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
    model = resolve_class(found.to, kind).config_type
    unknown = [path for path in our_keys(found) if path[-1] not in valid_keys(model, path[:-1])]
    assert unknown == []


@pytest.mark.parametrize(
    ("pivot", "model"), [pytest.param(*pair, id=f"{pair[0].stem}-{pair[1].stem}") for pair in SHIPPED]
)
def test_every_shipped_block_is_valid_for_its_plugin(pivot: Path, model: Path) -> None:
    given = ["policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m"]
    config = load([pivot, model], given)
    for name, instance in config.instances.items():
        cls = resolve_class(instance.implementation, instance.kind)
        assert isinstance(config.settings(name, cls.config_type), cls.config_type)
