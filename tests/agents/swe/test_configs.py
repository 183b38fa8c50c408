"""Claims about the configs that ship with the SWE agent, and about rows that were published for NeMo-Gym's."""

from pathlib import Path

import orjson
import pytest

from paddock.agents.swe.config import SweAgentConfig
from paddock.agents.swe.variants import DEFAULT_PROMPTS, Variants
from paddock.cli.configs import load_config
from paddock.collect import EvalSettings, make_plan
from paddock.config import Config, load
from paddock.config.files import PACKAGE
from paddock.harness import Template
from paddock.resources_servers.genrm.config import GenrmConfig
from paddock.resources_servers.swe.server import SweServerConfig

GIVEN = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")
MODEL = "models_servers/openai/configs/openai.yaml"
CONFIGS = sorted(path.name for path in PACKAGE.glob("agents/swe/configs/*.yaml"))


def shipped(name: str) -> Config:
    return load([f"agents/swe/configs/{name}", MODEL], GIVEN)


def published(agent: str) -> bytes:
    """A row of the SWE2 blend's form."""
    instance = {"instance_id": "a__b-1", "repo": "a/b", "patch": "", "problem_statement": "It fails."}
    metadata = {
        "instance_id": "a__b-1",
        "dataset_name": "princeton-nlp/SWE-bench_Verified",
        "split": "test",
        "problem_statement": "It fails.",
        "golden_patch": "",
        "instance_dict": orjson.dumps(instance).decode(),
    }
    params = {"input": [], "metadata": metadata, "model": "m", "temperature": 0.7, "max_output_tokens": 12288}
    ref = {"type": "responses_api_agents", "name": agent}
    return orjson.dumps({"responses_create_params": params, "agent_ref": ref, "instance_id": "a__b-1"})


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("ref", ["swe_agents_train", "swe_agents_val"])
def test_a_published_row_finds_its_agent_in_every_config(name: str, ref: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(published(ref))
    (group,) = make_plan(shipped(name), EvalSettings(rows=[str(tmp_path / "rows.jsonl")])).groups()
    assert group.error is None
    assert group.agent is not None
    agents = shipped(name).instances
    assert group.agent.name == (ref if ref in agents else {"swe_agent.yaml": "swe_agent"}.get(name, "swe_agents"))


def test_training_mixes_three_harnesses_and_validation_is_codeact_alone() -> None:
    config = shipped("swe_agents.yaml")
    train, val = (config.settings(f"swe_agents_{name}", SweAgentConfig) for name in ("train", "val"))
    assert [option.harness for option in train.options] == ["codeact", "opencode", "codex"]
    assert {option.weight for option in train.options} == {1.0}
    assert (val.harness, list(val.options)) == ("codeact", [])
    assert train.resources_server.name != val.resources_server.name


@pytest.mark.parametrize(
    ("name", "harness", "tests_s", "memory_mib"),
    [
        ("swebench_openhands.yaml", "codeact", 900, 32768),
        ("swebench_openhands_training.yaml", "codeact", 1200, 32768),
        ("swebench_opencode.yaml", "opencode", 900, 32768),
        ("swebench_opencode_training.yaml", "opencode", 900, 65536),
    ],
)
def test_configs_with_their_names_have_their_values(name: str, harness: str, tests_s: float, memory_mib: int) -> None:
    config = shipped(name)
    agents = [one.name for one in config.instances.values() if one.kind == "agents"]
    for agent in agents:
        found = config.settings(agent, SweAgentConfig)
        grading = config.settings(found.resources_server.name, SweServerConfig).grading
        assert (found.harness, found.agent_max_turns, found.agent_timeout_s) == (harness, 100, 1800)
        assert (found.command_timeout_s, found.limits.memory_mib) == (300, memory_mib)
        assert (grading.tests_timeout_s, grading.limits.memory_mib) == (tests_s, memory_mib)
        assert not found.options


def test_a_harness_that_the_command_names_is_the_only_one() -> None:
    config = load_config(
        [f"agents/swe/configs/{name}" for name in ("swe_agents.yaml",)], harness="null", modelless=True
    )
    found = config.settings("swe_agents_train", SweAgentConfig)
    assert (found.harness, list(found.options)) == ("null", [])


@pytest.mark.parametrize("name", CONFIGS)
def test_every_variant_of_every_config_can_be_made(name: str) -> None:
    config = shipped(name)
    for agent in (one.name for one in config.instances.values() if one.kind == "agents"):
        found = config.settings(agent, SweAgentConfig)
        made = Variants(found, agent).all()
        assert len(made) == max(1, len(found.options))
        assert len({one.name for one in made}) == len(made)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("agents/swe/prompts/*.jinja")), ids=lambda path: path.stem)
def test_a_way_to_work_is_told_with_the_problem_and_ends_like_the_others(path: Path) -> None:
    visible = {"problem_statement": "It fails."}
    told = Template(str(path), "prompt").render(visible, "/testbed", {})
    plain = DEFAULT_PROMPTS.user.replace("{{ workdir }}", "/testbed").replace("{{ problem_statement }}", "It fails.")
    begin, end = plain.partition("</problem>\n")[::2]
    assert told.startswith(begin)
    assert told.endswith(end)
    assert "1. " in told
    assert "test files and conftest.py files are left out" in told


def test_steps_are_judged_by_the_server_that_the_config_names() -> None:
    judging = ["resources_servers/genrm/configs/step_rewards.yaml", "models_servers/genrm/configs/genrm_model.yaml"]
    judge = ("genrm_base_url=http://127.0.0.1:8001/v1", "genrm_api_key=null", "genrm_model_name=j")
    config = load(["agents/swe/configs/swe_agent.yaml", *judging, MODEL], [*GIVEN, *judge])
    rewards = config.settings("swe_agent", SweAgentConfig).step_rewards
    assert rewards is not None
    server = config.settings(rewards.server.name, GenrmConfig)
    assert server.step_score.vote_timeout_s < rewards.score_timeout_s
    assert shipped("swe_agent.yaml").settings("swe_agent", SweAgentConfig).step_rewards is None
