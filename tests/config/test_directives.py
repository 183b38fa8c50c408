"""Parts of a config made from other parts."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.config import Config
from paddock.config.directives import expand
from paddock.errors import ConfigError

Load = Callable[..., Config]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"a": {"x": 1}, "b": {"_copy": "a", "y": 2}}, {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
        (
            {"a": {"x": {"p": 1, "q": 1}}, "b": {"_copy": "a", "x": {"q": 2}}},
            {"a": {"x": {"p": 1, "q": 1}}, "b": {"x": {"p": 1, "q": 2}}},
        ),
        ({"a": {"x": 1}, "b": {"_inherit_from": "a", "y": 2}}, {"b": {"x": 1, "y": 2}}),
        ({"a": {"x": {"k": 1}}, "b": {"c": "${copy:a.x}"}}, {"a": {"x": {"k": 1}}, "b": {"c": {"k": 1}}}),
        ({"a": {"x": 5, "y": 6}, "b": {"c": "${inherit_from:a.x}"}}, {"a": {"y": 6}, "b": {"c": 5}}),
        ({"a": {"x": 5}, "b": {"c": "${inherit_from: a.x}"}}, {"b": {"c": 5}}),
        (
            {"a": {"x": 1, "y": 2, "z": 3}, "b": {"_copy": "a", "_delete_key": "x, y"}},
            {"a": {"x": 1, "y": 2, "z": 3}, "b": {"z": 3}},
        ),
        ({"b": {"x": 1, "y": 2, "_delete_key": ["x"]}}, {"b": {"y": 2}}),
        ({"b": {"x": {"p": 1, "q": 2}, "_delete_key": "x.p"}}, {"b": {"x": {"q": 2}}}),
        ({"l": [{"_copy": "a", "y": 1}], "a": {"x": 1}}, {"l": [{"x": 1, "y": 1}], "a": {"x": 1}}),
        ({"a": [{"k": 1}, {"k": 2}], "b": "${copy:a.1}"}, {"a": [{"k": 1}, {"k": 2}], "b": {"k": 2}}),
    ],
)
def test_a_directive_does_what_it_says(tree: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expand(tree) == expected


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_chains_work_in_any_order(order: tuple[str, ...]) -> None:
    parts = {"a": {"x": 1}, "b": {"_inherit_from": "a", "y": 2}, "c": {"_inherit_from": "b", "z": 3}}
    assert expand({key: parts[key] for key in order}) == {"c": {"x": 1, "y": 2, "z": 3}}


def test_a_source_may_itself_be_below_a_copy() -> None:
    tree = {"a": {"n": {"x": 1}}, "b": {"_copy": "a"}, "c": {"_copy": "b.n", "y": "${copy:b.n.x}"}}
    assert expand(tree) == {"a": {"n": {"x": 1}}, "b": {"n": {"x": 1}}, "c": {"x": 1, "y": 1}}


def test_a_mapping_laid_on_a_whole_value_copy_keeps_the_copy(load_text: Load) -> None:
    config = load_text("vars: {a: {x: 1, y: 1}, b: '${copy:vars.a}'}", "vars.b.y=2")
    assert config.top("vars") == {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}}


def test_two_heirs_of_one_source_get_the_same_and_it_goes_away() -> None:
    tree = {"a": {"x": 1}, "b": {"_inherit_from": "a"}, "c": {"_inherit_from": "a"}}
    assert expand(tree) == {"b": {"x": 1}, "c": {"x": 1}}


def test_a_copy_shares_nothing_with_its_source() -> None:
    out = expand({"a": {"x": {"k": 1}}, "b": {"_copy": "a"}})
    out["b"]["x"]["k"] = 2
    assert out["a"]["x"]["k"] == 1


@pytest.mark.parametrize(
    "tree",
    [
        {"a": {"_copy": "b"}, "b": {"_copy": "a"}},
        {"a": {"_inherit_from": "a"}},
        {"a": {"x": {"_copy": "a"}}},
        {"a": {"_copy": "a.x", "x": {}}},
        {"a": "${copy:b}", "b": "${inherit_from:c}", "c": "${copy:a}"},
        {"_copy": "a", "a": {}},
    ],
)
def test_a_circle_is_refused_with_its_members(tree: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"circle: .* -> "):
        expand(tree)


@pytest.mark.parametrize(
    ("tree", "part"),
    [
        ({"alpha": {}, "b": {"_copy": "alhpa"}}, "`b`: nothing at `alhpa`: no `alhpa`; nearest: `alpha`"),
        ({"a": {"name": 1}, "b": {"_copy": "a.nmae"}}, "no `nmae`; nearest: `name`"),
        ({"b": {"alpha": 1, "_delete_key": "alpa"}}, "`b._delete_key`: no key `alpa`; nearest: `alpha`"),
        ({"a": 3, "b": {"_copy": "a"}}, "`a` is no mapping"),
        ({"b": {"_copy": 3}}, "a directive needs a key path"),
        ({"b": {"_delete_key": 3}}, "needs keys, as `a,b` or a list"),
    ],
)
def test_a_directive_that_cannot_be_done_says_why(tree: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(tree)
    assert part in caught.value.message


def test_instances_are_made_from_instances(load_text: Load) -> None:
    config = load_text(
        """
        base: {models_servers: {openai: {base_url: u, model: big, options: {thinking: true, depth: 2}}}}
        small: {_copy: base, models_servers: {openai: {model: small, options: {thinking: false}}}}
        heir: {_inherit_from: base, models_servers: {openai: {_delete_key: options}}}
        """
    )
    assert list(config.instances) == ["small", "heir"]
    assert config.block("small") == {"base_url": "u", "model": "small", "options": {"thinking": False, "depth": 2}}
