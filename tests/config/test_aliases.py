"""The alias table that ships, entry by entry."""

import pytest

from paddock.config import KINDS, RunSettings, alias_table, find_file, implementations
from paddock.config.aliases import Implementation, KeyRule
from paddock.config.directives import DIRECTIVE_KEYS

TABLE = alias_table()
IMPLEMENTATIONS = [
    pytest.param(kind, found, id=name) for kind, named in TABLE.implementations.items() for name, found in named.items()
]

RESERVED = [
    "config_paths",
    "entrypoint",
    "default_host",
    "head_server",
    "disallowed_ports",
    "head_server_deps",
    "python_version",
    "pip_install_verbose",
    "use_absolute_ip",
    "uv_pip_set_python",
    "skip_venv_if_present",
    "hf_token",
    "ray_head_node_address",
    "port_range_low",
    "port_range_high",
    "dry_run",
    "model_endpoint_readiness_timeout_seconds",
    "allow_openai_version_skew",
    "uv_cache_dir",
    "uv_venv_dir",
    "results_dir",
    "cache_dir",
    "nemo_gym_log_dir",
    "verbose",
    "json",
    "query",
    "observability_enabled",
    "model_call_capture_dir",
    "token_id_capture",
    "component_name",
    "skip_verification",
    "skip_verification_reward",
    "_inherit_from",
    "_copy",
]

VLLM = [
    "base_url",
    "api_key",
    "model",
    "return_token_id_information",
    "request_prompt_and_generation_token_ids",
    "uses_reasoning_parser",
    "uses_interleaved_reasoning",
    "preserve_reasoning_in_assistant_content",
    "replace_developer_role_with_system",
    "sequential_reasoning_allowed",
    "is_responses_native",
    "chat_template_kwargs",
    "sampling_overrides",
    "extra_body",
    "default_headers",
    "audio_root",
    "use_completions_api",
    "render_chat_template",
    "tokenizer",
]

GENRM = [*VLLM, "supports_principle_role", "vllm_serve_env_vars", "vllm_serve_kwargs", "hf_home", "debug"]

SWE_AGENTS = [
    "agent_framework",
    "agent_config",
    "agent_tools_file",
    "agent_max_turns",
    "agent_framework_repo",
    "agent_framework_commit",
    "container_formatter",
    "swebench_tests_timeout",
    "swebench_agent_timeout",
    "apptainer_memory_limit_mb",
    "memory_watchdog_enabled",
    "memory_watchdog_poll_interval_s",
    "command_exec_timeout",
    "concurrency",
    "dataset_path",
    "verify_golden_patch",
    "agent_prompt_overrides",
    "agent_prompt_override_random",
    "openhands_should_log",
    "debug",
    "opencode_subagents_enabled",
    "container_folder_path",
    "run_with_mixed_prompts",
]


def all_rules() -> list[tuple[str, KeyRule]]:
    tables = [TABLE.common_keys, TABLE.top_keys, TABLE.env_keys]
    tables += [found.keys for named in TABLE.implementations.values() for found in named.values()]
    return [entry for table in tables for entry in table.items()]


def test_server_types_and_kinds_are_ours() -> None:
    assert set(TABLE.server_types.values()) | set(TABLE.implementations) <= set(KINDS)
    assert not set(TABLE.server_types) & set(KINDS)


@pytest.mark.parametrize(("kind", "found"), IMPLEMENTATIONS)
def test_an_implementation_of_theirs_is_a_plugin_here(kind: str, found: Implementation) -> None:
    assert found.to in implementations(kind)


def test_no_implementation_of_theirs_has_the_name_of_a_plugin_here() -> None:
    for kind, named in TABLE.implementations.items():
        assert not set(named) & set(implementations(kind))


def test_every_rule_has_something_to_say() -> None:
    for key, rule in all_rules():
        text = rule.here or rule.inert or rule.trainer
        assert rule.items or rule.values or (text and text == text.strip()), key
        assert rule.only is None or rule.only, key


def test_no_key_at_the_top_or_beside_nemo_gym_is_ours() -> None:
    assert not (set(TABLE.top_keys) | set(TABLE.env_keys)) & set(RunSettings.model_fields)
    assert all(rule.inert or rule.trainer for rule in [*TABLE.top_keys.values(), *TABLE.env_keys.values()])


@pytest.mark.parametrize("key", RESERVED)
def test_every_reserved_key_of_theirs_is_ours_mapped_or_inert(key: str) -> None:
    assert key in RunSettings.model_fields or key in TABLE.top_keys or key in DIRECTIVE_KEYS


def test_there_are_34_reserved_keys() -> None:
    assert len(set(RESERVED)) == 34


@pytest.mark.parametrize("key", VLLM)
def test_every_key_of_their_vllm_model_has_a_rule(key: str) -> None:
    assert key in TABLE.implementations["models_servers"]["vllm_model"].keys


@pytest.mark.parametrize("key", GENRM)
def test_every_key_of_their_genrm_model_has_a_rule(key: str) -> None:
    assert key in TABLE.implementations["models_servers"]["genrm_model"].keys


@pytest.mark.parametrize("key", SWE_AGENTS)
def test_every_key_of_their_swe_agents_has_a_rule(key: str) -> None:
    assert key in TABLE.implementations["agents"]["swe_agents"].keys


def test_an_environment_of_theirs_is_a_resources_server_here_and_so_are_its_keys() -> None:
    for named in TABLE.implementations.values():
        for found in named.values():
            assert found.environment is None or found.environment in implementations("resources_servers")
            assert found.environment or not [key for key, rule in found.keys.items() if rule.environment]


@pytest.mark.parametrize(
    ("theirs", "ours"), [pytest.param(*pair, id=pair[0].rsplit("/")[-1]) for pair in TABLE.paths.items()]
)
def test_a_path_of_theirs_stands_for_a_file_that_ships(theirs: str, ours: str) -> None:
    assert theirs.partition("/")[0] in (*KINDS, *TABLE.server_types)
    assert find_file(ours, cwd="/").is_file()
    with pytest.raises(Exception, match="no file"):
        find_file(theirs, cwd="/")
