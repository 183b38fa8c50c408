"""From an implementation's name to its class."""

import importlib
from pathlib import Path

import pytest

from paddock.config import implementations, resolve_class
from paddock.config.plugins import only_class
from paddock.errors import ConfigError

PLUGIN = """
__all__ = {exports}

class Base:
    pass

class Mine(Base):
    KIND = "agents"

class Second(Mine):
    pass

class Model:
    KIND = "models_servers"
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_class_is_found_by_its_module_and_name(plugins: Path) -> None:
    (plugins / "plugin_by_name.py").write_text(PLUGIN.format(exports=[]))
    found = resolve_class("plugin_by_name:Mine", "agents")
    assert (found.__module__, found.__name__) == ("plugin_by_name", "Mine")


def test_a_class_of_another_kind_or_name_lists_those_that_fit(plugins: Path) -> None:
    (plugins / "plugin_listed.py").write_text(PLUGIN.format(exports=[]))
    with pytest.raises(ConfigError, match=r"no class of agents; .*classes of agents there: Mine, Second"):
        resolve_class("plugin_listed:Model", "agents")
    with pytest.raises(ConfigError, match="nearest: `Mine`"):
        resolve_class("plugin_listed:Mime", "agents")


@pytest.mark.parametrize(
    ("exports", "outcome"),
    [
        (["Base", "Mine", "Model"], "Mine"),
        (["Mine", "Second"], "exports `Mine`, `Second`"),
        (["Base", "Model"], "exports `Base`, `Model`"),
        ([], "exports nothing"),
    ],
)
def test_a_plugin_exports_exactly_one_class_of_its_kind(plugins: Path, exports: list[str], outcome: str) -> None:
    name = "plugin_exports_" + "_".join(exports)
    (plugins / f"{name}.py").write_text(PLUGIN.format(exports=exports))
    module = importlib.import_module(name)
    if outcome == "Mine":
        assert only_class(module, "agents") is module.Mine
    else:
        with pytest.raises(ConfigError, match=f"must export one class of agents in `__all__`, {outcome}"):
            only_class(module, "agents")


def test_an_unknown_folder_lists_what_exists_and_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown implementation `pivto` of resources_servers; nearest: `pivot`; valid: .*pivot"
    ):
        resolve_class("pivto", "resources_servers")
    assert "pivot" in implementations("resources_servers")
    assert implementations("no_such_kind") == []


@pytest.mark.parametrize("name", ["../pivot", "pivot/server", "__pycache__", "configs", ""])
def test_a_name_that_is_no_folder_of_a_plugin_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown implementation"):
        resolve_class(name, "resources_servers")


def test_a_module_that_is_not_there_is_told(plugins: Path) -> None:
    with pytest.raises(ConfigError, match="there is no module `no_such_package`"):
        resolve_class("no_such_package.mod:Class", "agents")


def test_a_package_that_a_plugin_lacks_is_named(plugins: Path) -> None:
    (plugins / "plugin_needs.py").write_text("import wanted_engine.core\n")
    with pytest.raises(
        ConfigError, match="`plugin_needs:Mine` needs the package `wanted_engine`, which is not installed"
    ):
        resolve_class("plugin_needs:Mine", "agents")


def test_a_mistake_inside_a_plugin_is_told_as_it_is(plugins: Path) -> None:
    (plugins / "plugin_import.py").write_text("from os import no_such_name\n")
    with pytest.raises(ConfigError, match="can't be imported: cannot import name 'no_such_name'"):
        resolve_class("plugin_import:Mine", "agents")
    (plugins / "plugin_broken.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        resolve_class("plugin_broken:Mine", "agents")
