"""Composing: files, their config_paths, a mapping, overrides."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from paddock.config import Config, load
from paddock.errors import ConfigError

Write = Callable[[str, str], Path]
Load = Callable[..., Config]
Fail = Callable[..., str]

MODEL = """
    policy_model:
      models_servers:
        openai: {base_url: %s, model: m}
"""


def block_of(config: Config, name: str = "policy_model") -> Any:
    return config.block(name)


def test_a_later_file_wins_key_by_key(write: Write, tmp_path: Path) -> None:
    first = write("a.yaml", "m: {models_servers: {openai: {base_url: a, model: a, extra: {x: 1, y: 1}, list: [1, 2]}}}")
    second = write("b.yaml", "m: {models_servers: {openai: {model: b, extra: {y: 2}, list: [3]}}}")
    config = load([first, second], cwd=tmp_path)
    assert config.block("m") == {"base_url": "a", "model": "b", "extra": {"x": 1, "y": 2}, "list": [3]}
    assert load([second, first], cwd=tmp_path).block("m")["model"] == "a"


def test_a_file_overrides_what_it_includes_and_later_siblings_win(write: Write, tmp_path: Path) -> None:
    write("one.yaml", "vars: {a: one, b: one, c: one}")
    write("two.yaml", "vars: {b: two, c: two}")
    top = write("top.yaml", "config_paths: [one.yaml, two.yaml]\nvars: {c: top}")
    assert load([top], cwd=tmp_path).top("vars") == {"a": "one", "b": "two", "c": "top"}


def test_config_paths_nest(write: Write, tmp_path: Path) -> None:
    write("deep/low.yaml", "vars: {a: low, b: low}")
    write("deep/middle.yaml", "config_paths: [low.yaml]\nvars: {b: middle}")
    top = write("top.yaml", "config_paths: [deep/middle.yaml]")
    assert load([top], cwd=tmp_path).top("vars") == {"a": "low", "b": "middle"}


def test_a_file_is_found_beside_the_naming_file_then_in_the_working_directory_then_in_the_package(
    write: Write, tmp_path: Path
) -> None:
    shipped = "models_servers/openai/configs/openai.yaml"
    top = write("project/top.yaml", f"config_paths: [{shipped}]")
    there = tmp_path / "elsewhere"
    there.mkdir()
    assert load([top], cwd=there).instances["policy_model"].origin.endswith(f"paddock/{shipped}:5")
    write(f"elsewhere/{shipped}", MODEL % "cwd")
    assert block_of(load([top], cwd=there))["base_url"] == "cwd"
    write(f"project/{shipped}", MODEL % "beside")
    assert block_of(load([top], cwd=there))["base_url"] == "beside"


def test_a_missing_file_lists_the_places_tried_and_the_nearest_name(write: Write, tmp_path: Path) -> None:
    write("project/pivot_test.yaml", "")
    top = write("project/top.yaml", "config_paths: [pivot_tset.yaml]")
    with pytest.raises(ConfigError) as caught:
        load([top], cwd=tmp_path)
    message = caught.value.message
    assert "nearest existing: `pivot_test.yaml`" in message
    for place in (tmp_path / "project/pivot_tset.yaml", tmp_path / "pivot_tset.yaml", "paddock/pivot_tset.yaml"):
        assert str(place) in message


def test_a_folder_in_place_of_a_file_names_the_file_in_it(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "capitals").mkdir()
    write("capitals/capitals.yaml", "{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no file `capitals`: a folder of that name holds `capitals/capitals\.yaml`"):
        load(["capitals"])


def test_a_missing_shipped_file_names_the_shipped_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nearest existing: `models_servers/openai/configs/openai.yaml`"):
        load(["models_servers/openai/configs/openia.yaml"], cwd=tmp_path)


def test_a_file_that_two_others_include_is_loaded_once(write: Write, tmp_path: Path) -> None:
    write("base.yaml", "vars: {x: base}")
    write("a.yaml", "config_paths: [base.yaml]\nvars: {x: a}")
    write("b.yaml", "config_paths: [base.yaml]")
    assert load([tmp_path / "a.yaml", tmp_path / "b.yaml"], cwd=tmp_path).top("vars") == {"x": "a"}


def test_files_that_include_each_other_are_refused_with_the_circle(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "config_paths: [b.yaml]")
    write("b.yaml", "config_paths: [a.yaml]")
    with pytest.raises(ConfigError, match=r"include each other: .*a\.yaml -> .*b\.yaml -> .*a\.yaml"):
        load([tmp_path / "a.yaml"], cwd=tmp_path)


def test_extra_comes_after_files_and_overrides_after_extra(write: Write, tmp_path: Path) -> None:
    path = write("a.yaml", "vars: {a: file, b: file, c: file}")
    extra = {"vars": {"b": "extra", "c": "extra"}}
    config = load([path], ["vars.c=override"], extra=extra, cwd=tmp_path)
    assert config.top("vars") == {"a": "file", "b": "extra", "c": "override"}
    assert extra == {"vars": {"b": "extra", "c": "extra"}}


def test_extra_may_be_an_omegaconf_config_and_include_files(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "vars: {a: file, b: file}")
    extra = OmegaConf.create({"config_paths": ["a.yaml"], "vars": {"b": "extra", "c": "${vars.a}"}})
    assert load([], extra=extra, cwd=tmp_path).top("vars") == {"a": "file", "b": "extra", "c": "file"}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("vars.x=3", 3),
        ("vars.x=1e-6", 1e-6),
        ("vars.x=true", True),
        ("vars.x=null", None),
        ("vars.x=", None),
        ("vars.x=[a, 2]", ["a", 2]),
        ("vars.x={a: 1}", {"old": 1, "a": 1}),
        ("vars.x='3'", "3"),
        ("vars.x=a=b", "a=b"),
        ("vars.x=http://host:80/v1", "http://host:80/v1"),
        ("+vars.x=3", 3),
        ("++vars.x=3", 3),
        ("vars.x.new=3", {"old": 1, "new": 3}),
    ],
)
def test_an_override_has_its_yaml_type(load_text: Load, override: str, expected: object) -> None:
    found = load_text("vars: {x: {old: 1}}", override).top("vars")["x"]
    assert found == expected
    assert type(found) is type(expected)


def test_an_override_may_delete_a_key(load_text: Load) -> None:
    assert load_text("vars: {a: 1, b: 2}", "~vars.a").top("vars") == {"b": 2}


def test_an_override_may_edit_an_item_of_a_list(load_text: Load) -> None:
    assert load_text("vars: {a: [{x: 1, y: 1}, 2]}", "vars.a.0.x=5").top("vars") == {"a": [{"x": 5, "y": 1}, 2]}


def test_deleting_what_is_not_there_names_the_nearest_key(fails: Fail) -> None:
    assert "no key `vars.alpa`; nearest: `alpha`" in fails("vars: {alpha: 1}", "~vars.alpa")


def test_an_override_makes_a_new_instance_only_when_it_says_so(load_text: Load, fails: Fail) -> None:
    text = "my_model: {models_servers: {openai: {}}}"
    assert "no instance `my_modle`; nearest: `my_model`" in fails(text, "my_modle.models_servers.openai.model=x")
    assert "my_modle" in load_text(text, "+my_modle.models_servers.openai.model=x").instances
    assert load_text(text, "my_model.models_servers.openai.model=x").block("my_model") == {"model": "x"}


SCRIPTED = "judge.models_servers.paddock.testing.judges:ScriptedJudge"


def test_an_override_reaches_a_key_of_a_class_with_dots_in_its_name(load_text: Load, fails: Fail) -> None:
    text = "judge: {models_servers: {'paddock.testing.judges:ScriptedJudge': {prefers: longer, fenced: true}}}"
    found = load_text(text, f"{SCRIPTED}.position_bias=0.5", f"~{SCRIPTED}.fenced").block("judge")
    assert found == {"prefers": "longer", "position_bias": 0.5}
    assert load_text("vars: {}", f"+{SCRIPTED}.prefers=shorter").block("judge") == {"prefers": "shorter"}
    theirs = text.replace("models_servers", "responses_api_models")
    assert load_text(theirs, f"{SCRIPTED}.noise=1".replace("models_servers", "responses_api_models")).block(
        "judge"
    ) == {
        "prefers": "longer",
        "fenced": True,
        "noise": 1,
    }
    assert "no key" in fails(text, f"~{SCRIPTED}.noise")


def test_a_colon_below_a_plugin_of_ours_is_no_class(load_text: Load) -> None:
    text = "m: {models_servers: {openai: {default_headers: {a: b}}}}"
    found = load_text(text, "m.models_servers.openai.default_headers.c:d=1").block("m")
    assert found["default_headers"] == {"a": "b", "c:d": 1}


def test_an_override_without_a_value_says_what_to_write(fails: Fail) -> None:
    assert "write `key.path=value`" in fails("vars: {}", "vars.a")


def test_overrides_may_name_files(write: Write, tmp_path: Path) -> None:
    write("a.yaml", "vars: {a: 1}")
    write("b.yaml", "vars: {a: 2}")
    assert load([], ["+config_paths=[a.yaml,b.yaml]"], cwd=tmp_path).top("vars") == {"a": 2}


def test_an_instance_knows_its_kind_implementation_and_line(load_text: Load, tmp_path: Path) -> None:
    config = load_text("vars: {}\nmy_model:\n  models_servers:\n    openai: {}\n")
    instance = config.instances["my_model"]
    assert (instance.kind, instance.implementation) == ("models_servers", "openai")
    assert instance.origin == "config.yaml:2"


def test_two_implementations_of_one_instance_are_refused_with_both_origins(write: Write, tmp_path: Path) -> None:
    first = write("a.yaml", "m: {models_servers: {openai: {}}}")
    second = write("b.yaml", "m: {models_servers: {replay: {}}}")
    with pytest.raises(ConfigError, match=r"`openai` \(a.yaml:1\), `replay` \(b.yaml:1\).*~m.models_servers.NAME"):
        load([first, second], cwd=tmp_path)
    swapped = load([first, second], ["~m.models_servers.openai"], cwd=tmp_path)
    assert swapped.instances["m"].implementation == "replay"


def test_all_problems_are_told_at_once(fails: Fail) -> None:
    message = fails("polcy_base_url: x\na: {agents: {singel_step: {}}}\nb: {agent: {single_step: {}}}\n")
    assert message.startswith("3 problems:")
    assert "unknown top-level key `polcy_base_url`; nearest: `policy_base_url`" in message
    assert (
        "config.yaml:2: `a.agents.singel_step`: unknown implementation `singel_step` of agents; nearest: `single_step`"
        in message
    )
    assert "`b.agent`: unknown server type; nearest: `agents`" in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("vars: {x: 1\n", "config.yaml:2: no valid YAML"),
        ("- a\n- b\n", "the top level must be a mapping"),
        ("vars: {}\nvars: {}\n", "config.yaml:2: `vars` is given twice"),
        ("vars:\n  a: 1\n  b: 2\n  a: 3\n", "config.yaml:4: `a` is given twice"),
        ("config_paths: {a: b}\n", "`config_paths` must be a list of files"),
        ("m: {models_servers: {openai: 3}}\n", "`m.models_servers.openai`: needs a mapping of fields"),
        ("m: {models_servers: openai}\n", "`m.models_servers`: needs `implementation: fields`"),
        ("m: {models_servers: {}}\n", "needs exactly one implementation, has none"),
        ("m: {models_servers: {openai: {}}, agents: {single_step: {}}}\n", "needs exactly one server type"),
        ("agent_map: [a]\n", "`agent_map`: Input should be a valid dictionary"),
        ("vars: {a: '${x'}\n", "`vars.a`"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(fails: Fail, text: str, part: str) -> None:
    assert part in fails(text)


def test_an_instance_may_have_no_fields(load_text: Load) -> None:
    assert load_text("m:\n  models_servers:\n    openai:\n").block("m") == {}


def test_agent_map_must_name_an_agent(fails: Fail, load_text: Load) -> None:
    text = "agent_map: {theirs: %s}\nmy_agent: {agents: {single_step: {}}}\nm: {models_servers: {openai: {}}}\n"
    assert load_text(text % "my_agent").top("agent_map") == {"theirs": "my_agent"}
    assert "`agent_map.theirs`: no agent `my_agnt`; nearest: `my_agent`" in fails(text % "my_agnt")
    assert "no agent `m`" in fails(text % "m")


def test_an_unknown_top_level_value_or_instance_names_the_nearest(load_text: Load) -> None:
    config = load_text("my_model: {models_servers: {openai: {}}}")
    with pytest.raises(ConfigError, match="no instance `my_modle`; nearest: `my_model`"):
        config.block("my_modle")
    with pytest.raises(ConfigError, match="no top-level key `agentmap`; nearest: `agent_map`"):
        config.top("agentmap")
    assert config.top("agent_map") == {}
    assert config.top("default_host") is None


def test_importing_the_package_imports_neither_omegaconf_nor_a_server() -> None:
    code = (
        "import sys, paddock.config; print([m for m in ('omegaconf', 'paddock.server', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
