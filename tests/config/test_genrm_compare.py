"""NeMo-Gym's GenRM blocks: theirs load through the table, and every key of theirs means something here."""

from collections.abc import Callable
from typing import Any

import pytest

from paddock.agents.tools.config import ToolsAgentConfig
from paddock.config import Config, resolve_class
from paddock.errors import ConfigError
from paddock.resources_servers.genrm.config import GenrmConfig

Load = Callable[..., Config]
POLICY = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")

PIVOT = "resources_servers/{0}/configs/{0}.yaml".format("single_step_tool_use_with_argument_comparison")
# Every key and value of the RLHF stage's recipe but the wording of its principle.
STAGE_3 = f"""
env:
  should_use_nemo_gym: true
  should_log_nemo_gym_responses: true
  should_mask_flagged_samples: true
  nemo_gym:
    uv_venv_dir: /cache/gym_venvs
    skip_venv_if_present: true
    num_gpu_nodes: 4
    port_range_low: 5000
    port_range_high: 5999
    invalid_tool_call_patterns: ["<tool_call>", "</tool_call>", "<function_call>", "</function_call>"]
    thinking_tags: ["<think>", "</think>"]
    config_paths:
      - responses_api_models/vllm_model/configs/vllm_model_for_training.yaml
      - resources_servers/genrm_compare/configs/genrm_compare.yaml
      - {PIVOT}
    policy_model_reasoning_off:
      _copy: policy_model
      responses_api_models:
        vllm_model:
          chat_template_kwargs: {{enable_thinking: false, truncate_history_thinking: false}}
          sequential_reasoning_allowed: false
    genrm_compare_resources_server:
      resources_servers:
        genrm_compare:
          genrm_model_server: {{type: responses_api_models, name: genrm_model}}
          genrm_responses_create_params: {{max_output_tokens: 16384, temperature: 0.6, top_p: 0.95}}
          comparison_strategy: circular
          num_judges_per_comparison: 1
          num_rollouts_per_prompt: 16
          use_principle: true
          default_principle: Judge fairly.
          aggregator_method: simple_tiebreaker
          reasoning_bonus: 0.5
          answer_bonus: 0.5
          top_percentile: 0.2
          group_reasoning_length_penalty_coeff: 0.3
          group_answer_length_penalty_coeff: 0.35
          group_style_penalty_coeff: 0.05
          default_score: 3.0
          default_ranking: 3.5
"""
MODEL = """
    genrm_model:
      responses_api_models:
        genrm_model:
          entrypoint: app.py
          model: nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603
          uses_reasoning_parser: true
          return_token_id_information: false
          supports_principle_role: true
          hf_home: null
          vllm_serve_env_vars:
            VLLM_RAY_DP_PACK_STRATEGY: strict
            VLLM_USE_DEEP_GEMM: "0"
            VLLM_MOE_USE_DEEP_GEMM: "0"
          vllm_serve_kwargs:
            attention_backend: TRITON_ATTN
            data_parallel_size: 4
            tensor_parallel_size: 8
            pipeline_parallel_size: 1
            reasoning_parser: deepseek_r1
            gpu_memory_utilization: 0.85
            max_model_len: 60000
            trust_remote_code: true
            model_loader_extra_config: {enable_multithread_load: true, num_threads: 112}
            compilation_config: {cudagraph_capture_sizes: [1, 2, 4, 8, 16, 32]}
          debug: false
"""
# The defaults of their code, spelt out under the names that rows were published with.
DEFAULTS = """
policy_model: {responses_api_models: {vllm_model: {base_url: http://a/v1, api_key: k, model: m}}}
judge: {responses_api_models: {vllm_model: {base_url: http://b/v1, api_key: k, model: m}}}
genrm_compare:
  resources_servers:
    genrm_compare:
      entrypoint: app.py
      genrm_model_server: {type: responses_api_models, name: judge}
      genrm_responses_create_params: {input: [], max_output_tokens: 16384, temperature: 0.6, top_p: 0.95}
      num_rollouts_per_prompt: 1
      comparison_strategy: all_pairs
      num_judges_per_comparison: 1
      use_principle: false
      aggregator_method: simple_tiebreaker
      reasoning_bonus: 0.0
      answer_bonus: 0.0
      top_percentile: 0.2
      group_reasoning_length_penalty_coeff: 0.0
      group_answer_length_penalty_coeff: 0.0
      group_style_penalty_coeff: 0.0
      default_score: 3.0
      default_ranking: 3.5
      debug_logging: false
      genrm_parse_retries: 3
      genrm_parse_retry_sleep_s: 0.2
      domain: rlhf
genrm_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      max_steps: null
      resources_server: {type: resources_servers, name: genrm_compare}
      model_server: {type: responses_api_models, name: policy_model}
"""


def settings_of(config: Config, name: str) -> Any:
    instance = config.instance(name)
    return config.settings(name, resolve_class(instance.implementation, instance.kind).config_type)


def test_the_recipe_of_the_rlhf_stage_loads_with_its_values(load_text: Load) -> None:
    config = load_text(STAGE_3 + MODEL, *POLICY)
    genrm = settings_of(config, "genrm_compare_resources_server")
    assert isinstance(genrm, GenrmConfig)
    assert [judge.name for judge in genrm.judges] == ["genrm_model"]
    weights = (
        genrm.reasoning_bonus,
        genrm.answer_bonus,
        genrm.top_percentile,
        genrm.group_reasoning_length_penalty_coeff,
        genrm.group_answer_length_penalty_coeff,
        genrm.group_style_penalty_coeff,
    )
    assert weights == (0.5, 0.5, 0.2, 0.3, 0.35, 0.05)
    assert (genrm.use_principle, genrm.default_principle) == (True, "Judge fairly.")
    assert genrm.genrm_responses_create_params == {"max_output_tokens": 16384, "temperature": 0.6, "top_p": 0.95}
    judge = settings_of(config, "genrm_model")
    assert judge.model == "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
    for name in ("genrm_simple_agent", "genrm_simple_agent_reasoning_off"):
        agent = settings_of(config, name)
        assert isinstance(agent, ToolsAgentConfig)
    off = settings_of(config, "policy_model_reasoning_off")
    assert off.chat_template_kwargs["enable_thinking"] is False


def test_their_defaults_are_read_as_written(load_text: Load) -> None:
    genrm = settings_of(load_text(DEFAULTS), "genrm_compare")
    assert isinstance(genrm, GenrmConfig)
    assert (genrm.comparison_strategy, genrm.num_rollouts_per_prompt) == ("all_pairs", 1)
    assert (genrm.genrm_parse_retries, genrm.genrm_parse_retry_sleep_s) == (3, 0.2)


def test_a_misspelt_key_of_theirs_is_refused_with_the_nearest(load_text: Load) -> None:
    text = DEFAULTS.replace("reasoning_bonus", "reasonin_bonus")
    with pytest.raises(ConfigError, match=r"reasonin_bonus.*reasoning_bonus"):
        settings_of(load_text(text), "genrm_compare")
