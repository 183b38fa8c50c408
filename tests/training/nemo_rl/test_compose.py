"""Claims about NeMo-RL's dictionaries as configs of ours: published lists compose; what can't be trained is refused."""

from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.training.nemo_rl.compose import compose, policy_keys
from paddock.types import JsonObject

SINGLE = "single_step_tool_use_with_argument_comparison"
POLICY = "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml"
PIVOT = f"resources_servers/{SINGLE}/configs/swe_pivot_{SINGLE}.yaml"
SPUN_UP: JsonObject = {
    **policy_keys("some/model", ["http://10.0.0.1:4001/v1", "http://10.0.0.2:4001/v1"]),
    "default_host": "10.0.0.9",
    "port_range_low": 5000,
    "port_range_high": 5999,
    "global_aiohttp_connector_limit_per_host": 16_384,
    "global_aiohttp_connector_limit": 65_536,
    "ray_head_node_address": "10.0.0.9:6379",
    "head_server": {"host": "0.0.0.0", "port": 5017},
    "uv_cache_dir": "/cache",
    "uv_venv_dir": "/venvs",
}
"""What NeMo-RL adds to `env.nemo_gym`."""
SWE1: JsonObject = {
    "skip_venv_if_present": True,
    "port_range_low": 5000,
    "port_range_high": 5999,
    "config_paths": [POLICY, PIVOT],
    "effort_levels": None,
}
_AGENT = {"agent_max_turns": 200, "concurrency": 768, "swebench_agent_timeout": 1800, "dataset_path": "/data/x.jsonl"}
_IMAGES = {"container_formatter": ["/sif/sweb.eval.x86_64.{instance_id}.sif"]}
SWE2: JsonObject = {
    **SWE1,
    "use_absolute_ip": True,
    "num_gpu_nodes": 0,
    "config_paths": [POLICY, "responses_api_agents/swe_agents/configs/swebench_openhands_training.yaml"],
    "swe_agents_train": {"responses_api_agents": {"swe_agents": {**_AGENT, **_IMAGES, "run_with_mixed_prompts": True}}},
    "swe_agents_val": {"responses_api_agents": {"swe_agents": {**_AGENT, **_IMAGES}}},
}


def test_the_list_of_swe1_is_pivot_and_asks_the_trainers_chat_server() -> None:
    composed = compose({**SWE1, **SPUN_UP})
    assert set(composed.config.instances) == {
        "policy_model",
        f"swe_pivot_{SINGLE}_resources_server",
        f"swe_pivot_{SINGLE}_agent",
    }
    policy = composed.config.block("policy_model")
    assert (policy["engine"], policy["token_protocol"]) == ("spliced", "nemo_rl")
    assert policy["base_url"] == SPUN_UP["policy_base_url"]
    assert (policy["model"], policy["api_key"]) == ("some/model", "dummy_key")


def test_the_list_of_swe2_is_an_agent_each_to_train_and_to_validate() -> None:
    config = compose({**SWE2, **SPUN_UP}).config
    agents = {name: config.block(name) for name, one in config.instances.items() if one.kind == "agents"}
    assert set(agents) == {"swe_agents_train", "swe_agents_val"}
    assert {agent["model_server"]["name"] for agent in agents.values()} == {"policy_model"}
    assert agents["swe_agents_train"]["run_with_mixed_prompts"]
    assert not agents["swe_agents_val"].get("run_with_mixed_prompts")
    assert config.block("policy_model")["token_protocol"] == "nemo_rl"


def test_a_copy_of_the_policy_is_asked_in_the_same_way() -> None:
    kwargs = {"enable_thinking": False}
    block = {"_copy": "policy_model", "responses_api_models": {"vllm_model": {"chat_template_kwargs": kwargs}}}
    copied = compose({**SWE1, "policy_model_reasoning_off": block, **SPUN_UP}).config.block(
        "policy_model_reasoning_off"
    )
    assert (copied["token_protocol"], copied["chat_template_kwargs"]) == ("nemo_rl", kwargs)


def test_every_key_that_says_nothing_is_named() -> None:
    named = {note.key.removeprefix("env.nemo_gym.") for note in compose({**SWE1, **SPUN_UP}).notes}
    expected = set(SPUN_UP) - {"policy_base_url", "policy_api_key", "policy_model_name"}
    assert expected | {"skip_venv_if_present"} <= named


def test_attempts_are_set_and_rows_are_the_trainers() -> None:
    said = {"max_attempts": 2, "rollout_timeout_s": 60, "concurrency": 8, "repeats": 4}
    composed = compose({**SWE1, **SPUN_UP, "eval": said})
    assert (composed.attempts.max_attempts, composed.attempts.rollout_timeout_s, composed.max_in_flight) == (2, 60, 8)
    assert "eval.repeats" in {note.key for note in composed.notes}
    assert compose({**SWE1, **SPUN_UP}).max_in_flight is None, "as many as the trainer asks for"


INHERITED: JsonObject = {"code_gen": {"resources_servers": {"code_gen": {"num_processes": 1024}}}}
"""Of the recipe of another environment, which the published ones of Qwen3 stand on."""


def test_settings_of_a_server_that_no_file_names_are_named_and_serve_nothing() -> None:
    composed = compose({**SWE1, **SPUN_UP, **INHERITED})
    assert set(composed.config.instances) == set(compose({**SWE1, **SPUN_UP}).config.instances)
    assert "code_gen" in {note.key for note in composed.notes}
    served = {"resources_servers": {"code_gen": {"entrypoint": "app.py"}}}
    started = compose({**SWE1, **SPUN_UP, "code_gen": served}).config.instance("code_gen")
    assert started.implementation == "nemo_gym", "one that a file names, and nothing here replaces, is theirs"
    slip = {"responses_api_agents": {"swe_agents": {"agent_max_turn": 3}}}
    with pytest.raises(ConfigError, match="agent_max_turn"):
        compose({**SWE2, **SPUN_UP, "swe_agents_train": slip})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"skip_venv_if_presnt": True}, "skip_venv_if_presnt"),
    ({"eval": {"max_attempt": 1}}, "max_attempts"),
    ({"config_paths": [POLICY.replace("_for_training", ""), PIVOT]}, "token ids"),
    ({"config_paths": [PIVOT]}, "policy_model"),
    ({"config_paths": [POLICY]}, "no agent"),
]


@pytest.mark.parametrize(("change", "told"), REFUSED)
def test_what_is_unknown_or_can_not_be_trained_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        compose({**SWE1, **SPUN_UP, **change})


def test_the_trainers_own_form_of_a_dictionary_is_read() -> None:
    from omegaconf import OmegaConf

    assert set(compose(OmegaConf.create({**SWE1, **SPUN_UP})).config.instances) == set(
        compose({**SWE1, **SPUN_UP}).config.instances
    )
