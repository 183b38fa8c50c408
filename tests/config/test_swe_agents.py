"""NeMo-Gym's SWE agents: an agent with its environment inside there, an agent and a resources server here."""

from collections.abc import Callable

import pytest

from paddock.agents.swe.config import SweAgentConfig
from paddock.agents.swe.variants import Variants
from paddock.config import Config
from paddock.errors import ConfigError
from paddock.resources_servers.swe.server import SweServerConfig

Load = Callable[..., Config]
Fail = Callable[..., str]

GIVEN = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")
PROMPTS = "responses_api_agents/swe_agents/prompts"

BLOCK = """
policy_model: {responses_api_models: {vllm_model: {base_url: http://a/v1, api_key: k, model: m}}}
swe_agents_val:
  responses_api_agents:
    swe_agents: &config
      entrypoint: app.py
      domain: coding
      agent_framework: openhands
      agent_config: responses_api_agents/swe_agents/configs/oh_config.toml
      agent_tools_file: null
      agent_max_turns: 50
      agent_framework_repo: https://example.org/fork.git
      agent_framework_commit: 5f0180054732945df08ad2293903e6873f0492b6
      container_formatter: /images/{instance_id}.sif
      container_folder_path: null
      swebench_tests_timeout: 900
      swebench_agent_timeout: 1700
      apptainer_memory_limit_mb: 16384
      memory_watchdog_enabled: true
      memory_watchdog_poll_interval_s: 0.5
      command_exec_timeout: 200
      concurrency: 256
      dataset_path: ???
      verify_golden_patch: false
      openhands_should_log: false
      debug: false
      opencode_subagents_enabled: false
      agent_prompt_override_random: false
      model_server: {name: policy_model, type: responses_api_models}
      datasets:
        - name: validation
          type: validation
          jsonl_fpath: /data/verified.jsonl
          license: TBD
          gitlab_identifier: {dataset_name: verified, version: 0.0.1, artifact_fpath: verified.jsonl}
"""

RECIPE = """
data: {train: {data_path: /data/train.jsonl}, validation: {data_path: /data/val.jsonl}}
sif_dir: /images
grpo: {max_val_samples: null}
env:
  should_use_nemo_gym: true
  nemo_gym:
    config_paths:
      - responses_api_models/vllm_model/configs/vllm_model_for_training.yaml
      - responses_api_agents/swe_agents/configs/swebench_openhands_training.yaml
    use_absolute_ip: true
    policy_model:
      responses_api_models:
        vllm_model:
          chat_template_kwargs: {enable_thinking: true, truncate_history_thinking: false}
          sequential_reasoning_allowed: false
    swe_agents_train:
      responses_api_agents:
        swe_agents:
          agent_max_turns: 200
          concurrency: 768
          swebench_agent_timeout: 3600
          run_with_mixed_prompts: true
          dataset_path: ${data.train.data_path}
          container_formatter:
            - ${sif_dir}/swebench_sweb.eval.x86_64.{instance_id}.sif
            - ${sif_dir}/r2egym_{instance_id}.sif
    swe_agents_val:
      responses_api_agents:
        swe_agents:
          agent_max_turns: 200
          concurrency: 768
          swebench_agent_timeout: 3600
          dataset_path: ${data.validation.data_path}
          container_formatter: ${env.nemo_gym.swe_agents_train.responses_api_agents.swe_agents.container_formatter}
"""
FORMATTER = ["/images/swebench_sweb.eval.x86_64.{instance_id}.sif", "/images/r2egym_{instance_id}.sif"]


def agent(config: Config, name: str) -> SweAgentConfig:
    return config.settings(name, SweAgentConfig)


def environment(config: Config, name: str) -> SweServerConfig:
    return config.settings(agent(config, name).resources_server.name, SweServerConfig)


def test_a_whole_block_of_theirs_is_an_agent_and_an_environment(load_text: Load) -> None:
    config = load_text(BLOCK)
    assert list(config.instances) == ["policy_model", "swe_agents_val", "swe_agents_val_environment"]
    assert config.block("swe_agents_val") == {
        "harness": "codeact",
        "agent_max_turns": 50,
        "agent_timeout_s": 1700,
        "rollout_timeout_s": 14400,
        "command_timeout_s": 200,
        "limits": {"memory_mib": 16384},
        "admission": {"memory_per_sandbox_mib": 2048},
        "sandbox": {"watchdog": {"period_s": 0.5}},
        "mix_per_rollout": False,
        "resources_server": {"type": "resources_servers", "name": "swe_agents_val_environment"},
        "model_server": {"type": "models_servers", "name": "policy_model"},
        "datasets": [{"name": "validation", "type": "validation", "jsonl_fpath": "/data/verified.jsonl"}],
    }
    assert config.block("swe_agents_val_environment") == {
        "images": {"container_formatter": "/images/{instance_id}.sif"},
        "grading": {"tests_timeout_s": 900, "limits": {"memory_mib": 16384}},
        "sandbox": {"watchdog": {"period_s": 0.5}},
    }
    assert not agent(config, "swe_agents_val").options
    assert environment(config, "swe_agents_val").grading.tests_timeout_s == 900


def test_defaults_of_theirs_hold_where_nothing_is_said(load_text: Load) -> None:
    config = load_text(
        "m: {models_servers: {openai: {}}}\n"
        "a: {responses_api_agents: {swe_agents: {model_server: {type: responses_api_models, name: m}}}}"
    )
    found = agent(config, "a")
    assert (found.harness, found.agent_max_turns, found.agent_timeout_s) == ("codeact", 100, 2700)
    assert (found.limits.memory_mib, environment(config, "a").grading.tests_timeout_s) == (65536, 1800)


def test_a_training_recipe_of_theirs_sets_agent_and_environment_and_mixes_for_training_alone(load_text: Load) -> None:
    config = load_text(RECIPE, *GIVEN)
    assert sorted(config.instances) == [
        "policy_model",
        "swe_agents_train",
        "swe_agents_train_environment",
        "swe_agents_val",
        "swe_agents_val_environment",
    ]
    train, val = agent(config, "swe_agents_train"), agent(config, "swe_agents_val")
    assert [option.harness for option in train.options] == ["codeact", "opencode", "codex"]
    assert not val.options
    for found in (train, val):
        assert (found.harness, found.agent_max_turns, found.agent_timeout_s) == ("codeact", 200, 3600)
        assert found.limits.memory_mib == 32768
        assert found.rollout_timeout_s == 14400
    assert train.resources_server.name == "swe_agents_train_environment"
    for name in ("swe_agents_train", "swe_agents_val"):
        grading = environment(config, name)
        assert grading.images.container_formatter == FORMATTER
        assert (grading.grading.tests_timeout_s, grading.grading.limits.memory_mib) == (1200, 32768)
    assert Config.from_yaml(config.to_yaml()).block("swe_agents_val") == config.block("swe_agents_val")


def test_an_override_reaches_the_environment_by_their_name_and_by_ours(load_text: Load) -> None:
    theirs = "env.nemo_gym.swe_agents_val.responses_api_agents.swe_agents.swebench_tests_timeout=7"
    ours = "swe_agents_train_environment.resources_servers.swe.grading.tests_timeout_s=8"
    formatter = "swe_agents_train_environment.resources_servers.swe.images.container_formatter=/x/{instance_id}.sif"
    config = load_text(RECIPE, *GIVEN, theirs, ours, formatter)
    assert environment(config, "swe_agents_val").grading.tests_timeout_s == 7
    assert environment(config, "swe_agents_train").grading.tests_timeout_s == 8
    # What interpolates the other follows it.
    assert environment(config, "swe_agents_train").images.container_formatter == "/x/{instance_id}.sif"
    assert environment(config, "swe_agents_val").images.container_formatter == "/x/{instance_id}.sif"


def test_anchors_and_copies_give_each_agent_an_environment_of_its_own(load_text: Load) -> None:
    text = BLOCK + (
        "swe_agents_train: {responses_api_agents: {swe_agents: {<<: *config, swebench_tests_timeout: 60}}}\n"
        "third: {_copy: swe_agents_val, responses_api_agents: {swe_agents: {swebench_tests_timeout: 61}}}\n"
    )
    config = load_text(text)
    found = {name: environment(config, name) for name in ("swe_agents_val", "swe_agents_train", "third")}
    assert {name: one.grading.tests_timeout_s for name, one in found.items()} == {
        "swe_agents_val": 900,
        "swe_agents_train": 60,
        "third": 61,
    }
    assert {one.images.container_formatter for one in found.values()} == {"/images/{instance_id}.sif"}


def test_options_of_theirs_are_options_here(load_text: Load) -> None:
    options = f"""\
      agent_prompt_overrides:
        - {{user_prompt_template: {PROMPTS}/mine/user_prompt.j2, agent_cls: CodexAgent, diversify_tool_names: false}}
        - {{user_prompt_template: {PROMPTS}/mine/user_prompt.j2, agent_cls: OpenCodeAgent, diversify_tool_names: true}}
        - {{system_prompt_template: Be brief., agent_cls: CodeActAgent, camel_case_tool_names: true}}
        - {{user_prompt_template: "{{{{ instance.problem_statement }}}}"}}
"""
    text = BLOCK.replace(
        "      agent_prompt_override_random: false\n", "      agent_prompt_override_random: true\n" + options
    )
    found = agent(load_text(text), "swe_agents_val")
    assert found.mix_per_rollout
    assert [option.harness for option in found.options] == ["codex", "opencode", "codeact", None]
    assert [option.diversify_tool_names for option in found.options] == [False, True, False, False]
    assert [option.camel_case_tool_names for option in found.options] == [False, False, True, False]
    assert found.options[0].user_prompt_template == f"{PROMPTS}/mine/user_prompt.j2"


def test_published_prompts_of_the_three_harnesses_are_the_harnesses_own(load_text: Load) -> None:
    families = {"codex": "CodexAgent", "opencode": "OpenCodeAgent", "openhands": "CodeActAgent"}
    options = "      agent_prompt_overrides:\n" + "".join(
        f"        - user_prompt_template: {PROMPTS}/{name}/user_prompt.j2\n"
        f"          system_prompt_template: {PROMPTS}/{name}/system_prompt.j2\n"
        f"          agent_cls: {cls}\n"
        "          diversify_tool_names: false\n"
        for name, cls in families.items()
    )
    found = agent(load_text(BLOCK + options), "swe_agents_val")
    own = found.model_copy(
        update={"agent_prompt_overrides": None, "run_with_mixed_prompts": True},
    )
    theirs, ours = Variants(found, "agent").all(), Variants(own, "agent").all()
    assert [one.name for one in theirs] == ["codex", "opencode", "codeact"]
    visible = {"problem_statement": "It fails."}
    for one in theirs:
        other = next(other for other in ours if other.name == one.name)
        for left, right in ((one.user, other.user), (one.system, other.system)):
            assert left is not None
            assert right is not None
            assert left.render(visible, "/w", one.tool_names) == right.render(visible, "/w", one.tool_names)


def test_a_published_prompt_that_is_not_here_is_refused_by_its_name(load_text: Load) -> None:
    option = f"{{user_prompt_template: {PROMPTS}/minimax/user_prompt.j2, agent_cls: CodeActAgent}}"
    found = agent(load_text(BLOCK + f"      agent_prompt_overrides: [{option}]\n"), "swe_agents_val")
    with pytest.raises(ConfigError, match=r"no file `.*minimax/user_prompt.j2`"):
        Variants(found, "agent")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("agent_framework: openhands", "agent_framework: swe_agent", "there is no `swe_agent` here"),
        ("memory_watchdog_enabled: true", "memory_watchdog_enabled: false", "memory is always watched"),
        ("verify_golden_patch: false", "verify_golden_patch: true", "--harness gold"),
        ("opencode_subagents_enabled: false", "opencode_subagents_enabled: true", "no sub-agents"),
        (
            "debug: false",
            "agent_prompt_overrides: [{agent_cls: Terminus2Agent}]",
            "there is no `Terminus2Agent` here; ",
        ),
        ("debug: false", "agent_prompt_overrides: [{agent_cls: CodeActAgnt}]", "nearest: `CodeActAgent`"),
    ],
)
def test_what_has_no_counterpart_is_refused(fails: Fail, before: str, after: str, why: str) -> None:
    assert why in fails(BLOCK.replace(before, after))


@pytest.mark.parametrize(
    ("key", "nearest"), [("swebench_test_timeout: 1", "valid:"), ("agent_prompt_overide: []", "agent_prompt_overrides")]
)
def test_a_key_that_nobody_has_is_refused_with_the_nearest(load_text: Load, key: str, nearest: str) -> None:
    config = load_text(BLOCK.replace("debug: false", key))
    with pytest.raises(ConfigError, match=nearest) as caught:
        agent(config, "swe_agents_val")
    assert f"swe_agents_val.agents.swe.{key.partition(':')[0]}" in caught.value.message


def test_a_key_of_theirs_in_a_block_of_ours_says_where_it_belongs(load_text: Load) -> None:
    config = load_text(
        "m: {models_servers: {openai: {}}}\n"
        "e: {resources_servers: {swe: {}}}\n"
        "a: {agents: {swe: {harness: 'null', swebench_tests_timeout: 3, resources_server: "
        "{type: resources_servers, name: e}, model_server: {type: models_servers, name: m}}}}"
    )
    with pytest.raises(ConfigError, match=r"here `grading.tests_timeout_s` of its resources server"):
        agent(config, "a")


def test_an_environment_that_is_not_there_is_still_a_bad_reference(fails: Fail) -> None:
    text = BLOCK.replace("debug: false", "resources_server: {type: resources_servers, name: none}")
    assert "no instance `none`" in fails(text)


def test_servers_that_only_theirs_needs_are_left_out_and_named(load_text: Load) -> None:
    text = BLOCK + (
        "swe_agents_environment_server:\n  environment_servers:\n    legacy_agent:\n      entrypoint: app.py\n"
        "      agent_server: {type: responses_api_agents, name: swe_agents_val}\n"
    )
    config = load_text(text)
    assert "swe_agents_environment_server" not in config.instances
    assert [note.kind for note in config.notes if note.key == "swe_agents_environment_server"] == ["inert"]


def test_every_key_that_was_moved_is_a_note(load_text: Load) -> None:
    notes = {note.key.rpartition(".")[2]: note.text for note in load_text(BLOCK).notes if note.kind == "mapped"}
    assert notes["swebench_tests_timeout"] == "`grading.tests_timeout_s` of its resources server"
    assert (
        notes["apptainer_memory_limit_mb"]
        == "`limits.memory_mib` and `grading.limits.memory_mib` of its resources server"
    )


def test_a_value_of_the_environment_that_is_wrong_names_the_line_that_gave_it(load_text: Load) -> None:
    config = load_text(BLOCK.replace("swebench_tests_timeout: 900", "swebench_tests_timeout: soon"))
    line = 1 + BLOCK[: BLOCK.index("swebench_tests_timeout")].count("\n")
    with pytest.raises(ConfigError, match=rf"config.yaml:{line}: .*grading.tests_timeout_s"):
        config.settings("swe_agents_val_environment", SweServerConfig)
