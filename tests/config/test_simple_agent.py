"""NeMo-Gym's agent of tools: read as ours, and as one of a single step in front of what judges the call itself."""

import pytest
from tests.config.conftest import Load, Write

from paddock.agents.single_step.server import SingleStepConfig
from paddock.agents.tools.config import ToolsAgentConfig
from paddock.config import Config, load

AGENT = """
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: %s}
      model_server: {type: responses_api_models, name: policy_model}
%s
policy_model: {models_servers: {openai: {base_url: "http://a/v1", model: m}}}
"""
GENRM = """
environment: {resources_servers: {genrm: {genrm_model_server: {type: models_servers, name: judge}}}}
judge: {models_servers: {genrm: {base_url: "http://b/v1", model: j}}}
"""
PIVOTS = {
    "theirs": "environment: {resources_servers: {single_step_tool_use_with_argument_comparison: {entrypoint: app.py}}}",
    "layered": "environment: {resources_servers: {swe_pivot: {entrypoint: app.py}}}",
    "by_class": "environment: {resources_servers: {'paddock.resources_servers.pivot:PivotServer': {}}}",
}


def agent_text(environment: str, extra: str = "", *, name: str = "environment") -> str:
    return AGENT % (name, extra) + environment


def implementation(config: Config) -> str:
    return config.instance("agent").implementation


@pytest.mark.parametrize(
    ("written", "max_turns"), [("", None), ("      max_steps: null", None), ("      max_steps: 6", 6)]
)
def test_it_runs_tools_as_often_as_it_says(written: str, max_turns: int | None, load_text: Load) -> None:
    config = load_text(agent_text(GENRM, written))
    assert implementation(config) == "tools"
    settings = config.settings("agent", ToolsAgentConfig)
    assert (settings.max_turns, settings.reasoning_alone, settings.concurrent_calls) == (max_turns, "continues", False)


@pytest.mark.parametrize("environment", PIVOTS.values(), ids=PIVOTS)
def test_in_front_of_what_judges_the_call_it_takes_one_step_and_says_so(environment: str, load_text: Load) -> None:
    config = load_text(agent_text(environment, "      max_steps: 3"))
    assert implementation(config) == "single_step"
    assert config.settings("agent", SingleStepConfig).tools == "judge"
    (note,) = [note for note in config.notes if "judges the call itself" in note.text]
    assert note.key == "agent.agents.simple_agent"
    again = Config.from_yaml(config.to_yaml())
    assert again.block("agent") == config.block("agent")


def test_what_the_environment_is_decides_and_not_its_name(load_text: Load) -> None:
    named = GENRM.replace("environment:", "swe_pivot:")
    assert implementation(load_text(agent_text(named, name="swe_pivot"))) == "tools"


def test_an_overlay_of_theirs_meets_our_file_of_a_pivot(write: Write) -> None:
    ours = write("ours.yaml", "agent: {agents: {single_step: {chat_template_kwargs: {a: 1}}}}")
    config = load([ours, write("theirs.yaml", agent_text(PIVOTS["theirs"]))])
    assert implementation(config) == "single_step"
    assert config.block("agent")["chat_template_kwargs"] == {"a": 1}
