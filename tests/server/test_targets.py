"""Claims about what a command's words mean: files, overrides, or a plugin that is served alone."""

from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.server.targets import find_plugin, is_override, load_target


@pytest.mark.parametrize(
    ("word", "override"),
    [("a=1", True), ("+a.b=1", True), ("++a=x=y", True), ("~a.b", True), ("a.yaml", False), ("configs/a", False)],
)
def test_an_override_is_known_by_its_form(word: str, override: bool) -> None:
    assert is_override(word) is override


def test_a_plugin_is_served_as_its_own_config_says_though_its_agent_has_no_model() -> None:
    target = load_target(["pivot"])
    assert target.names == ["pivot"]
    assert target.config.block("pivot")["comparator"] == "semantic"


def test_a_plugin_without_a_config_is_one_instance_with_defaults() -> None:
    target = load_target(["single_step", "single_step.agents.single_step.rollout_timeout_s=5"])
    assert target.names == ["single_step"]
    assert target.config.block("single_step") == {"rollout_timeout_s": 5}


def test_a_file_comes_before_a_plugin_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pivot").write_text("mine: {models_servers: {replay: {}}}")
    monkeypatch.chdir(tmp_path)
    assert find_plugin("pivot") is None
    assert list(load_target(["pivot"]).config.instances) == ["mine"]


def test_names_are_kept_and_only_they_must_be_complete() -> None:
    target = load_target(["resources_servers/pivot/configs/pivot.yaml"], names=["pivot"])
    assert target.names == ["pivot"]
    with pytest.raises(ConfigError, match="no instance `policy_model`"):
        load_target(["resources_servers/pivot/configs/pivot.yaml"])
