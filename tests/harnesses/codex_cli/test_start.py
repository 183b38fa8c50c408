"""Claims about how Codex is started: its files say what is meant, nothing in them is secret or differs between runs."""

import json
import tomllib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ConfigError
from paddock.harness import ModelEndpoint, Task, make_harness
from paddock.harness.programs.cli import ProgramStart
from paddock.harnesses.codex_cli import CodexCliHarness
from paddock.harnesses.codex_cli.program_config import toml

ENDPOINT = ModelEndpoint(base_url="http://127.0.0.1:8765/v1", model="policy")
TASK = Task(prompt="Fix 'it'.\n", system='Be "careful".\n')


def start(**settings: object) -> ProgramStart:
    harness = make_harness("codex_cli", dict(settings))
    assert isinstance(harness, CodexCliHarness)
    return harness.start(TASK, ENDPOINT, "/testbed")


def test_its_configuration_names_the_tunnel_and_nothing_else() -> None:
    made = start()
    config = tomllib.loads(made.files[".codex/config.toml"].decode())
    provider = config["model_providers"][config["model_provider"]]
    assert provider["base_url"] == ENDPOINT.base_url
    assert made.env[provider["env_key"]] == ENDPOINT.api_key == "unused"
    catalog = json.loads(made.files[f".codex/{config['model_catalog_json']}"])
    (model,) = catalog["models"]
    assert (model["slug"], model["base_instructions"]) == (config["model"], TASK.system)


def test_the_task_is_no_argument() -> None:
    made = start()
    assert made.stdin == TASK.prompt.encode()
    assert not any("Fix" in word for word in made.argv)
    assert made.argv[-1] == "-"


def test_an_answer_that_broke_off_is_not_asked_for_again_unless_told() -> None:
    for retries in (0, 3):
        config = tomllib.loads(start(stream_retries=retries).files[".codex/config.toml"].decode())
        assert config["model_providers"]["paddock"]["stream_max_retries"] == retries


def test_it_sums_up_only_when_told() -> None:
    plain = tomllib.loads(start().files[".codex/config.toml"].decode())
    told = tomllib.loads(start(compact_at_tokens=5000).files[".codex/config.toml"].decode())
    assert plain["model_auto_compact_token_limit"] > 10_000_000
    assert told["model_auto_compact_token_limit"] == 5000


def test_another_version_is_one_word() -> None:
    harness = make_harness("codex_cli", {"version": "0.170.0"})
    assert isinstance(harness, CodexCliHarness)
    assert harness.program.folder == "codex_cli-0.170.0"
    assert harness.command("codex") == "/opt/paddock/codex_cli-0.170.0/bin/codex"


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="compact_at_token"):
        make_harness("codex_cli", {"compact_at_token": 1})


def test_date_and_zone_are_pinned_in_the_environment_that_codex_tells() -> None:
    harness = make_harness("codex_cli", {"prompt_date": "2025-03-01"})
    assert isinstance(harness, CodexCliHarness)
    assert harness.settings.prompt_date == date(2025, 3, 1)
    told = "<environment_context>\n<current_date>{}</current_date>\n<timezone>{}</timezone>\n</environment_context>"
    pin = harness.request_rules().pin
    assert pin(told.format("2026-11-22", "Etc/GMT+12")) == told.format("2025-03-01", "Etc/UTC")
    assert pin("It is 2026-11-22.") == "It is 2026-11-22."


VALUES = st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20)
KEYS = st.text(alphabet="abc_", min_size=1, max_size=4)
TABLES = st.recursive(
    st.dictionaries(KEYS, VALUES, max_size=3),
    lambda inner: st.dictionaries(KEYS, VALUES | inner, max_size=3),
    max_leaves=8,
)


@given(TABLES.map(lambda table: {"root": table, "x": 1}))
def test_toml_says_what_was_meant(table: dict[str, object]) -> None:
    assert without_empty(tomllib.loads(toml(table).decode())) == without_empty(table)


def without_empty(value: object) -> object:
    """Empty tables say nothing."""
    if not isinstance(value, dict):
        return value
    kept = {key: without_empty(inner) for key, inner in value.items()}
    return {key: inner for key, inner in kept.items() if inner != {}}
