"""Blocks of NeMo-Gym's resources servers that nothing here replaces: each is a server that is started."""

from pathlib import Path
from typing import Any

import pytest
from tests.config.conftest import Fail, Load, Write

from paddock.agents.nemo_gym.config import NemoGymAgentConfig
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.config import load
from paddock.config.nemo_gym import PYTHON_VARIABLE
from paddock.errors import ConfigError
from paddock.resources_servers.nemo_gym.config import NemoGymConfig

MCQA = """
mcqa:
  resources_servers:
    mcqa: {entrypoint: app.py, grading_mode: null, domain: knowledge, verified: false}
"""
JUDGED = """
policy_model: {responses_api_models: {vllm_model: {base_url: "http://a/v1", model: m, api_key: k}}}
equivalence:
  resources_servers:
    equivalence_llm_judge:
      entrypoint: app.py
      judges: [{judge_model_server: {type: responses_api_models, name: policy_model}}]
"""


def test_its_keys_are_its_config(load_text: Load) -> None:
    config = load_text(MCQA)
    assert config.instance("mcqa").implementation == "nemo_gym"
    settings = config.settings("mcqa", NemoGymConfig)
    assert (settings.server, settings.entrypoint) == ("mcqa", "app.py")
    assert settings.config == {"entrypoint": "app.py", "grading_mode": None, "domain": "knowledge", "verified": False}
    (note,) = config.notes
    assert (note.key, note.kind) == ("mcqa.resources_servers.mcqa", "mapped")
    assert "`mcqa.resources_servers.nemo_gym`" in note.text


def test_model_servers_that_it_names_are_those_of_the_config(load_text: Load, fails: Fail) -> None:
    config = load_text(JUDGED)
    assert config.references("equivalence") == ["policy_model"]
    assert config.settings("equivalence", NemoGymConfig).models == ["policy_model"]
    assert "policy_modle" in fails(JUDGED.replace("name: policy_model}", "name: policy_modle}"))


@pytest.mark.parametrize(
    "overlay",
    [
        "env: {nemo_gym: {mcqa: {resources_servers: {mcqa: {grading_mode: strict}}}}}",
        "mcqa: {resources_servers: {nemo_gym: {config: {grading_mode: strict}}}}",
        "mcqa: {resources_servers: {mcqa: {entrypoint: app.py, grading_mode: strict}}}",
    ],
)
def test_an_overlay_adds_to_it(overlay: str, write: Write) -> None:
    config = load([write("theirs.yaml", MCQA), write("overlay.yaml", overlay)])
    block = config.settings("mcqa", NemoGymConfig)
    assert block.config == {
        "entrypoint": "app.py",
        "grading_mode": "strict",
        "domain": "knowledge",
        "verified": False,
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: {resources_servers: {pivto: {comparator: compat}}}", "nearest: `pivot`"),
        ("a: {resources_servers: {nemo_gym: {server: mcqa, grading_mode: strict}}}", "grading_mode"),
        ("a: {resources_servers: {nemo_gym: {server: ../mcqa}}}", "server"),
    ],
)
def test_what_is_no_block_of_theirs_is_refused(text: str, told: str, load_text: Load) -> None:
    with pytest.raises(Exception, match=told):
        load_text(text).settings("a", NemoGymConfig)


def test_a_plugin_of_ours_with_that_name_is_theirs_only_with_an_entry_file(load_text: Load) -> None:
    ours: Any = load_text("a: {resources_servers: {genrm: {}}}")
    assert ours.instance("a").implementation == "genrm"
    theirs = load_text("a: {resources_servers: {genrm: {entrypoint: app.py}}}")
    assert theirs.instance("a").implementation == "nemo_gym"


def test_a_file_of_their_package_is_found_last(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "env/bin/python"))
    package = "env/lib/python3.12/site-packages"
    (tmp_path / package / "nemo_gym").mkdir(parents=True)
    named = "resources_servers/mcqa/configs/mcqa.yaml"
    replaced = "resources_servers/swe_pivot/configs/swe_pivot.yaml"
    write(f"{package}/{named}", MCQA)
    write(f"{package}/{replaced}", "theirs: {}")
    policy = 'policy_model: {models_servers: {openai: {base_url: "http://a/v1", model: m}}}'
    config = load([write("config.yaml", f"config_paths: [{named}, {replaced}]\n{policy}")], cwd=tmp_path)
    servers = {name: one.implementation for name, one in config.instances.items() if one.kind == "resources_servers"}
    assert servers == {"mcqa": "nemo_gym", "swe_pivot": "pivot"}


def test_their_agent_of_stepped_servers_is_the_agent_of_tools(load_text: Load) -> None:
    config = load_text(
        """
blackjack: {resources_servers: {blackjack: {entrypoint: app.py, domain: games, verified: false}}}
policy_model: {responses_api_models: {vllm_model: {base_url: "http://a/v1", model: m, api_key: k}}}
dealer:
  responses_api_agents:
    gymnasium_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: blackjack}
      model_server: {type: responses_api_models, name: policy_model}
      max_steps: 5
"""
    )
    assert config.instance("dealer").implementation == "tools"
    settings = config.settings("dealer", ToolsAgentConfig)
    assert (settings.environment_steps, settings.max_turns) == (True, 5)


SCICODE = """
scicode: {resources_servers: {scicode: {entrypoint: app.py, domain: coding, verified: false}}}
policy_model: {responses_api_models: {vllm_model: {base_url: "http://a/v1", model: m, api_key: k}}}
judge_model: {responses_api_models: {vllm_model: {base_url: "http://b/v1", model: m, api_key: k}}}
scicode_agent:
  responses_api_agents:
    scicode_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: scicode}
      model_server: {type: responses_api_models, name: policy_model}
      judge_model_server: {type: responses_api_models, name: judge_model}
      with_background: true
      datasets: [{name: example, type: example, jsonl_fpath: rows.jsonl, num_repeats: 2, license: Apache 2.0}]
"""


def test_an_agent_of_theirs_is_one_that_is_started(load_text: Load, write: Write) -> None:
    config = load_text(SCICODE)
    assert config.instance("scicode_agent").implementation == "nemo_gym"
    settings = config.settings("scicode_agent", NemoGymAgentConfig)
    assert (settings.agent, settings.entrypoint, settings.models) == ("scicode_agent", "app.py", ["judge_model"])
    assert (settings.resources_server.name, settings.model_server.name) == ("scicode", "policy_model")
    assert settings.config["with_background"] is True
    assert [(one.jsonl_fpath, one.num_repeats) for one in settings.datasets] == [("rows.jsonl", 2)]
    assert sorted(config.references("scicode_agent")) == ["judge_model", "policy_model", "scicode"]
    overlay = "env: {nemo_gym: {scicode_agent: {responses_api_agents: {scicode_agent: {with_background: false}}}}}"
    added = load([write("theirs.yaml", SCICODE), write("overlay.yaml", overlay)])
    assert added.settings("scicode_agent", NemoGymAgentConfig).config["with_background"] is False
    without = load_text(SCICODE.replace("      resources_server: {", "      their_server: {"))
    with pytest.raises(ConfigError, match="resources_server"):
        without.settings("scicode_agent", NemoGymAgentConfig)
