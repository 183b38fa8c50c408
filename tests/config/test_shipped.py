"""The config files that ship with the plugins."""

from pathlib import Path

import pytest

from paddock.config import load
from paddock.config.files import PACKAGE

PIVOT = sorted(PACKAGE.glob("resources_servers/pivot/configs/*.yaml"))
SWE = sorted(PACKAGE.glob("agents/swe/configs/*.yaml"))
MODELS = sorted(PACKAGE.glob("models_servers/openai/configs/*.yaml"))
GIVEN = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")
SINGLE = "single_step_tool_use_with_argument_comparison"


@pytest.mark.parametrize("path", PIVOT, ids=lambda path: path.stem)
def test_a_pivot_config_runs_with_a_model_config(path: Path) -> None:
    for model in MODELS:
        config = load([path, model], GIVEN, strict=True)
        config.require()
        assert sorted(instance.kind for instance in config.instances.values()) == [
            "agents",
            "models_servers",
            "resources_servers",
        ]
        assert config.notes == []


@pytest.mark.parametrize("path", [*PIVOT, *MODELS, *SWE], ids=lambda path: path.stem)
def test_a_config_starts_with_the_command_that_runs_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    command, _, rest = first.removeprefix("# ").partition(" ")
    assert command == "paddock"
    assert f"{path.parent.parent.parent.name}/{path.parent.parent.name}/configs/{path.name}" in rest


@pytest.mark.parametrize(
    ("stem", "server", "agent", "threshold"),
    [
        (SINGLE, f"{SINGLE}_resources_server", f"{SINGLE}_agent", 0.1),
        (f"swe_pivot_{SINGLE}", f"swe_pivot_{SINGLE}_resources_server", f"swe_pivot_{SINGLE}_agent", 0.0),
        ("swe_pivot", "swe_pivot", "swe_pivot_tool_simulation_agent", None),
        ("pivot", "pivot", "pivot_agent", None),
    ],
)
def test_published_rows_find_their_agent_and_comparator(
    stem: str, server: str, agent: str, threshold: float | None
) -> None:
    names = [f"resources_servers/pivot/configs/{stem}.yaml", "models_servers/openai/configs/openai.yaml"]
    config = load(names, GIVEN)
    assert list(config.instances) == [server, agent, "policy_model"]
    assert config.references(agent) == [server, "policy_model"]
    assert config.block(server).get("compat", {}).get("word_count_similarity_threshold") == threshold
