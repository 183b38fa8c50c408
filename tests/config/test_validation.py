"""Blocks against models: every problem, its full key path, the nearest valid key."""

from collections.abc import Callable
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from paddock.config import Config, validate
from paddock.errors import ConfigError

Load = Callable[..., Config]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Options(Strict):
    threshold: float = 0.1
    mode: Literal["f1", "binary"] = "f1"


class Item(Strict):
    name: str
    num_repeats: int = 1


class Settings(Strict):
    comparator: str = "semantic"
    compat: Options = Options()
    maybe: Options | None = None
    datasets: list[Item] = Field(default_factory=list)
    by_name: dict[str, Options] = Field(default_factory=dict)
    either: Options | list[Options] = Field(default_factory=list)
    base_url: str | list[str] = "x"
    api_key: int = 0


P = "p.resources_servers.pivot"


def message(data: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(Settings, data, P)
    return caught.value.message


def test_a_valid_block_is_the_model() -> None:
    found = validate(Settings, {"comparator": "compat", "compat": {"threshold": "0.5"}}, "p")
    assert found == Settings(comparator="compat", compat=Options(threshold=0.5))


@pytest.mark.parametrize(
    ("data", "start"),
    [
        ({"comparater": 1}, f"unknown key `{P}.comparater`; nearest: `comparator`; valid: api_key, base_url"),
        ({"compat": {"treshold": 1}}, f"unknown key `{P}.compat.treshold`; nearest: `threshold`; valid: mode, thresh"),
        ({"maybe": {"mod": 1}}, f"unknown key `{P}.maybe.mod`; nearest: `mode`; valid: mode, threshold"),
        (
            {"datasets": [{"name": "a"}, {"name": "b", "num_repeat": 2}]},
            f"unknown key `{P}.datasets.1.num_repeat`; nearest: `num_repeats`; valid: name, num_repeats",
        ),
        ({"by_name": {"Any": {"modes": 1}}}, f"unknown key `{P}.by_name.Any.modes`; nearest: `mode`; valid: mode, "),
        ({"datasets": [{}]}, f"`{P}.datasets.0.name` is required and not given"),
        ({"compat": {"mode": "f2"}}, f"`{P}.compat.mode`: Input should be 'f1' or 'binary' (got 'f2')"),
        ({"qqqqqqqqqqqq": 1}, f"unknown key `{P}.qqqqqqqqqqqq`; valid: api_key"),
    ],
)
def test_a_wrong_key_is_named_in_full_with_the_nearest_at_its_level(data: dict[str, object], start: str) -> None:
    assert message(data).startswith(start)


def test_every_problem_is_told() -> None:
    text = message({"comparater": 1, "compat": {"threshold": "high"}, "datasets": [{}]})
    assert text.startswith("3 problems:")


def test_the_names_of_union_members_are_not_in_the_key_path() -> None:
    assert f"`{P}.either.treshold`; nearest: `threshold`" in message({"either": {"treshold": 1}})
    assert f"`{P}.base_url`: " in message({"base_url": 3})


def test_a_value_whose_key_may_hold_a_secret_is_not_shown() -> None:
    assert "hunter2" not in message({"api_key": "hunter2"})
    assert "hunter2" in message({"compat": {"threshold": "hunter2"}})


def test_settings_of_an_instance_name_the_file_and_line(load_text: Load) -> None:
    config = load_text("p:\n  resources_servers:\n    pivot:\n      compat:\n        threshold: 0.5\n        mod: f1\n")
    with pytest.raises(ConfigError) as caught:
        config.settings("p", Settings)
    assert caught.value.message == (
        "config.yaml:6: unknown key `p.resources_servers.pivot.compat.mod`; nearest: `mode`; valid: mode, threshold"
    )
    fixed = load_text("p: {resources_servers: {pivot: {compat: {threshold: 0.5}}}}")
    assert fixed.settings("p", Settings).compat.threshold == 0.5
