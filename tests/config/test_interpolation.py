"""Values resolved when they are asked for, and the config handed on without them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.config import Config, load
from paddock.errors import ConfigError

Load = Callable[..., Config]

SECRET = "sk-very-secret"
TEXT = """
policy_base_url: ${oc.env:TEST_BASE_URL,http://default}
policy_api_key: ${oc.env:TEST_API_KEY}
policy_model_name: model-${vars.size}
vars: {size: 7b, unused: '???'}
policy_model:
  models_servers:
    openai: {base_url: "${policy_base_url}", api_key: "${policy_api_key}", model: "${policy_model_name}"}
"""


def test_a_block_reads_the_environment_of_the_moment(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", "first")
    config = load_text(TEXT)
    assert config.block("policy_model") == {"base_url": "http://default", "api_key": "first", "model": "model-7b"}
    monkeypatch.setenv("TEST_API_KEY", "second")
    monkeypatch.setenv("TEST_BASE_URL", "http://other")
    assert config.block("policy_model") == {"base_url": "http://other", "api_key": "second", "model": "model-7b"}
    assert config.top("policy_api_key") == "second"


def test_loading_needs_no_variable_and_an_unset_one_names_key_and_variable(
    load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_API_KEY", raising=False)
    config = load_text(TEXT)
    with pytest.raises(ConfigError) as caught:
        config.block("policy_model")
    key = "`policy_model.models_servers.openai.api_key` (`${policy_api_key}`)"
    assert caught.value.message == f"{key}: environment variable TEST_API_KEY is not set"


def test_no_value_of_the_environment_is_in_the_dump(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", SECRET)
    config = load_text(TEXT)
    assert config.block("policy_model")["api_key"] == SECRET
    dumped = config.to_yaml()
    assert SECRET not in dumped
    assert "${oc.env:TEST_API_KEY}" in dumped


def test_a_dump_reads_back_as_the_same_config(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", "k")
    config = load_text(TEXT)
    again = Config.from_yaml(config.to_yaml())
    assert again.to_yaml() == config.to_yaml()
    assert list(again.instances) == list(config.instances)
    assert again.block("policy_model") == config.block("policy_model")


def test_a_dump_needs_none_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("vars: {x: 1}")
    config = load(["a.yaml"], cwd=tmp_path)
    (tmp_path / "a.yaml").unlink()
    assert Config.from_yaml(config.to_yaml()).top("vars") == {"x": 1}


def test_unset_values_are_told_all_at_once_and_only_those_that_are_needed(load_text: Load) -> None:
    config = load_text(
        """
        policy_api_key: ???
        vars: {unused: '???'}
        a: {models_servers: {openai: {base_url: '???', api_key: "${policy_api_key}", list: [1, '???'], model: m}}}
        b: {models_servers: {openai: {model: "${policy_modl_name}"}}}
        c: {models_servers: {openai: {model: m}}}
        """
    )
    assert config.block("c") == {"model": "m"}
    config.require(["c"])
    with pytest.raises(ConfigError) as caught:
        config.require(["a"])
    key = "`a.models_servers.openai.api_key`"
    assert caught.value.message.splitlines() == [
        "3 problems:",
        "  - `a.models_servers.openai.base_url`: is mandatory (`???`) and nothing sets it",
        f"  - {key} (`${{policy_api_key}}`): `policy_api_key` is mandatory (`???`) and nothing sets it",
        "  - `a.models_servers.openai.list.1`: is mandatory (`???`) and nothing sets it",
    ]
    with pytest.raises(ConfigError, match="4 problems"):
        config.require()
    with pytest.raises(ConfigError, match="nothing sets `policy_modl_name`; nearest: `policy_"):
        config.block("b")


def test_a_known_setting_that_nothing_sets_says_how_to_set_it(load_text: Load) -> None:
    config = load_text("m: {models_servers: {openai: {base_url: '${policy_base_url}'}}}")
    with pytest.raises(ConfigError, match=r"on the command line as `policy_base_url=\.\.\.`"):
        config.block("m")


@pytest.mark.parametrize(
    "text",
    [
        "vars: {a: '${vars.a}'}\n",
        "vars: {a: '${vars.b}', b: '${vars.a}'}\n",
        "vars: {a: {b: '${vars.a}'}}\n",
    ],
)
def test_an_interpolation_of_itself_is_an_error_and_ends(load_text: Load, text: str) -> None:
    with pytest.raises(ConfigError, match=r"Recursive interpolation|Interpolation to parent"):
        load_text(text).top("vars")


def test_what_a_block_references_is_known_before_the_environment_is(load_text: Load) -> None:
    config = load_text(
        """
        m: {models_servers: {openai: {api_key: "${oc.env:TEST_NEVER_SET}"}}}
        other: {models_servers: {openai: {}}}
        r: {resources_servers: {pivot: {judge: {deep: [{type: models_servers, name: m}]}}}}
        a:
          agents:
            single_step:
              model_server: {type: models_servers, name: m}
              resources_server: {type: resources_servers, name: r}
        """
    )
    assert config.references("a") == ["m", "r"]
    assert config.references("r") == ["m"]
    assert config.needed(["a"]) == ["a", "m", "r"]
    assert config.needed(["r"]) == ["r", "m"]
