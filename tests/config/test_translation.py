"""NeMo-Gym's names: recipes, blocks, keys, and what happens to each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.config import Config, load
from paddock.errors import ConfigError

Write = Callable[[str, str], Path]
Load = Callable[..., Config]
Fail = Callable[..., str]

SINGLE = "single_step_tool_use_with_argument_comparison"

RECIPE = f"""
grpo: {{num_prompts_per_step: 64, max_val_samples: null}}
policy:
  model_name: some/model
  train_global_batch_size: ${{mul:${{grpo.num_prompts_per_step}}, 8}}
env:
  should_use_nemo_gym: true
  should_log_nemo_gym_responses: false
  should_mask_flagged_samples: true
  nemo_gym:
    skip_venv_if_present: true
    port_range_low: 5000
    port_range_high: 5999
    config_paths:
      - responses_api_models/vllm_model/configs/vllm_model_for_training.yaml
      - resources_servers/{SINGLE}/configs/swe_pivot_{SINGLE}.yaml
"""

GIVEN = ("policy_base_url=http://127.0.0.1:8000/v1", "policy_api_key=k", "policy_model_name=m")

THEIRS = """
their_env:
  resources_servers:
    single_step_tool_use_with_argument_comparison:
      entrypoint: app.py
      domain: agent
      verified: false
      description: words
      tool_call_comparator_config: {word_count_similarity_threshold: 0.3, allow_subset: true}
layered_env:
  resources_servers:
    swe_pivot: {entrypoint: app.py, domain: agent, name: swe_pivot, reward_mode: continuous, similarity_threshold: 0.5}
their_agent:
  responses_api_agents:
    tool_simulation_agent:
      entrypoint: app.py
      max_steps: 1
      skip_verification: false
      resources_server: {type: resources_servers, name: their_env}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
        - name: train
          type: train
          jsonl_fpath: /data/train.jsonl
          num_repeats: 2
          license: Apache 2.0
          huggingface_identifier: {repo_id: a/b, artifact_fpath: train.jsonl}
        - {name: example, type: example, jsonl_fpath: resources_servers/swe_pivot/data/example.jsonl, source: {a: b}}
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      base_url: [http://a/v1, http://b/v1]
      api_key: k
      model: m
      return_token_id_information: true
      uses_reasoning_parser: true
      chat_template_kwargs: {enable_thinking: true}
      is_responses_native: false
      audio_root: null
other_model:
  responses_api_models:
    openai_model:
      openai_base_url: http://c/v1
      openai_api_key: k
      openai_model: n
      drop_input_reasoning_items: ${oc.env:TEST_DROP_REASONING,false}
"""


def test_a_training_recipe_loads_as_the_pivot_the_single_step_agent_and_an_openai_model(load_text: Load) -> None:
    config = load_text(RECIPE, *GIVEN)
    kinds = {name: (instance.kind, instance.implementation) for name, instance in config.instances.items()}
    assert kinds == {
        "policy_model": ("models_servers", "openai"),
        f"swe_pivot_{SINGLE}_resources_server": ("resources_servers", "pivot"),
        f"swe_pivot_{SINGLE}_agent": ("agents", "single_step"),
    }
    pivot = config.block(f"swe_pivot_{SINGLE}_resources_server")
    assert pivot == {"comparator": "compat", "compat": {"word_count_similarity_threshold": 0.0}}
    agent = config.block(f"swe_pivot_{SINGLE}_agent")
    assert agent["resources_server"]["name"] == f"swe_pivot_{SINGLE}_resources_server"
    assert agent["model_server"] == {"type": "models_servers", "name": "policy_model"}
    assert config.block("policy_model") == {
        "base_url": "http://127.0.0.1:8000/v1",
        "api_key": "k",
        "model": "m",
        "engine": "spliced",
        "request_token_ids": True,
    }


def test_every_key_of_a_recipe_that_says_nothing_here_is_a_note_with_its_line(load_text: Load) -> None:
    notes = load_text(RECIPE, *GIVEN).notes
    inert = {note.key: note.where for note in notes if note.kind == "inert"}
    assert inert == {
        "env.nemo_gym.skip_venv_if_present": "config.yaml:11",
        "env.nemo_gym.port_range_low": "config.yaml:12",
        "env.nemo_gym.port_range_high": "config.yaml:13",
    }
    trainers = {note.key for note in notes if note.kind == "trainer"}
    assert {"grpo, policy", "env.should_use_nemo_gym", "env.should_mask_flagged_samples"} <= trainers
    assert [note.text for note in notes if note.key.startswith("responses_api_models/")] == [
        "`models_servers/openai/configs/vllm_model_for_training.yaml`"
    ]


def test_strict_loading_refuses_inert_keys_but_not_the_trainers(fails: Fail, load_text: Load) -> None:
    message = fails(RECIPE, *GIVEN, strict=True)
    assert message.startswith("3 problems:")
    assert "`env.nemo_gym.port_range_low`" in message
    clean = RECIPE.replace("    skip_venv_if_present: true\n", "").replace("    port_range_low: 5000\n", "")
    assert "policy_model" in load_text(clean.replace("    port_range_high: 5999\n", ""), *GIVEN, strict=True).instances


def test_nothing_of_the_trainers_config_is_dumped(load_text: Load) -> None:
    dumped = load_text(RECIPE, *GIVEN).to_yaml()
    assert "grpo" not in dumped
    assert "some/model" not in dumped
    assert list(Config.from_yaml(dumped).instances) == list(load_text(RECIPE, *GIVEN).instances)


def test_what_a_recipe_reads_of_the_trainers_config_is_kept_as_a_variable(load_text: Load) -> None:
    text = (
        RECIPE
        + f"    swe_pivot_{SINGLE}_agent:\n      responses_api_agents:\n        tool_simulation_agent:\n"
        + "          datasets: [{name: t, type: train, jsonl_fpath: '${data.train.data_path}'}]\n"
        + "data: {train: {data_path: '${root}/train.jsonl', other: 1}, validation: {}}\nroot: /data\n"
    )
    config = load_text(text, *GIVEN)
    assert config.block(f"swe_pivot_{SINGLE}_agent")["datasets"][0]["jsonl_fpath"] == "/data/train.jsonl"
    assert config.top("vars") == {"data": {"train": {"data_path": "/data/train.jsonl"}}, "root": "/data"}
    moved = load_text(text, *GIVEN, "root=/other", "grpo.num_prompts_per_step=1")
    assert moved.block(f"swe_pivot_{SINGLE}_agent")["datasets"][0]["jsonl_fpath"] == "/other/train.jsonl"


def test_a_file_of_theirs_that_is_there_is_read_and_not_ours(write: Write, load_text: Load) -> None:
    path = "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml"
    write(
        path, "policy_model: {responses_api_models: {vllm_model: {model: local, return_token_id_information: false}}}"
    )
    assert load_text(RECIPE, *GIVEN[:2]).block("policy_model") == {
        "model": "local",
        "engine": "text",
        "request_token_ids": False,
    }


def test_a_recipes_defaults_come_before_it(write: Write, load_text: Load) -> None:
    write("base.yaml", RECIPE)
    config = load_text(
        "defaults: base.yaml\ncluster: {num_nodes: 2}\n"
        "env:\n  nemo_gym:\n    policy_model:\n      responses_api_models:\n"
        "        vllm_model: {return_token_id_information: false, chat_template_kwargs: {enable_thinking: true}}\n",
        *GIVEN,
    )
    block = config.block("policy_model")
    assert (block["engine"], block["chat_template_kwargs"]) == ("text", {"enable_thinking": True})


def test_an_override_may_be_written_with_their_names(load_text: Load) -> None:
    path = "policy_model.responses_api_models.vllm_model"
    config = load_text(RECIPE, *GIVEN, f"++{path}.return_token_id_information=false", f"env.nemo_gym.{path}.model=mine")
    assert config.block("policy_model")["engine"] == "text"
    assert config.block("policy_model")["model"] == "mine"


def test_a_note_or_an_error_of_an_override_does_not_hold_its_value(load_text: Load, fails: Fail) -> None:
    config = load_text(
        RECIPE, *GIVEN, "policy_model.responses_api_models.vllm_model.api_key=hunter2", "hf_token=hunter2"
    )
    assert not any("hunter2" in str(note) for note in config.notes)
    assert "hunter2" not in fails("vars: {}", "hf_token=hunter2")
    assert "hunter2" not in config.to_yaml().replace("api_key: hunter2", "")


def test_blocks_of_theirs_come_out_in_our_names(load_text: Load) -> None:
    config = load_text(THEIRS)
    assert config.block("their_env") == {
        "comparator": "compat",
        "compat": {"word_count_similarity_threshold": 0.3, "allow_subset": True},
    }
    assert config.block("layered_env") == {
        "comparator": "layered",
        "layered": {"reward_mode": "continuous", "similarity_threshold": 0.5},
    }
    assert config.block("their_agent")["datasets"] == [
        {"name": "train", "type": "train", "jsonl_fpath": "/data/train.jsonl", "num_repeats": 2},
        {"name": "example", "type": "example", "jsonl_fpath": "resources_servers/pivot/data/example.jsonl"},
    ]
    assert config.block("policy_model") == {
        "base_url": ["http://a/v1", "http://b/v1"],
        "api_key": "k",
        "model": "m",
        "engine": "spliced",
        "request_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": True},
        "upstream_api": "chat",
    }
    assert config.block("other_model") == {
        "upstream_api": "responses",
        "base_url": "http://c/v1",
        "api_key": "k",
        "model": "n",
    }


def test_a_value_that_would_change_what_is_done_is_refused_and_not_inert(
    fails: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "`their_agent.responses_api_agents.tool_simulation_agent.skip_verification`: this value has no counterpart"
        in (fails(THEIRS.replace("skip_verification: false", "skip_verification: true")))
    )
    assert "audio_root`: this value has no counterpart" in fails(
        THEIRS.replace("audio_root: null", "audio_root: /audio")
    )
    monkeypatch.setenv("TEST_DROP_REASONING", "true")
    assert "drop_input_reasoning_items`: this value has no counterpart" in fails(THEIRS)
    assert "return_token_id_information`: needs one of: true, false" in fails(
        THEIRS.replace("return_token_id_information: true", "return_token_id_information: maybe")
    )


def test_an_unknown_implementation_of_theirs_lists_the_known_ones(fails: Fail) -> None:
    message = fails("m: {responses_api_models: {vlm_model: {entrypoint: app.py}}}")
    assert "`m.models_servers.vlm_model`: unknown implementation `vlm_model` of models_servers" in message
    assert "NeMo-Gym's: " in message
    assert "vllm_model" in message


def test_two_ways_of_saying_one_thing_must_agree(fails: Fail) -> None:
    text = "e: {resources_servers: {swe_pivot: {reward_mode: binary, layered: {reward_mode: continuous}}}}"
    assert "`layered.reward_mode` is given too, and differs" in fails(text)


def test_directives_and_interpolations_may_use_their_names(load_text: Load) -> None:
    config = load_text(
        THEIRS
        + """
off_model:
  _copy: policy_model
  responses_api_models:
    vllm_model: {chat_template_kwargs: {enable_thinking: false}, _delete_key: "entrypoint, audio_root"}
linked_model:
  responses_api_models:
    openai_model:
      openai_base_url: ${other_model.responses_api_models.openai_model.openai_base_url}
      openai_api_key: ${copy:other_model.responses_api_models.openai_model.openai_api_key}
      openai_model: x
"""
    )
    assert config.block("off_model")["chat_template_kwargs"] == {"enable_thinking": False}
    assert config.block("off_model")["engine"] == "spliced"
    assert config.block("linked_model")["base_url"] == "http://c/v1"
    assert config.block("linked_model")["api_key"] == "k"


def test_a_block_whose_verdicts_differ_from_theirs_says_so_at_start(load_text: Load) -> None:
    notes = {note.key: str(note) for note in load_text(THEIRS).notes if note.kind == "mapped"}
    layered = notes["layered_env.resources_servers.swe_pivot"]
    assert "some verdicts differ from theirs" in layered
    assert "resources_servers/pivot/README.md" in layered
    assert "differ" not in notes["their_env.resources_servers.single_step_tool_use_with_argument_comparison"]


def test_their_keys_that_a_directive_brings_are_mapped_too(load_text: Load) -> None:
    config = load_text(
        """
        common: {tool_call_comparator_config: {word_count_similarity_threshold: 0.4}, entrypoint: app.py}
        e:
          resources_servers:
            single_step_tool_use_with_argument_comparison: {_inherit_from: common, domain: agent}
        """
    )
    assert config.block("e") == {"comparator": "compat", "compat": {"word_count_similarity_threshold": 0.4}}


def test_a_free_variable_of_theirs_is_kept_when_something_reads_it(load_text: Load, fails: Fail) -> None:
    text = "sif_dir: /images\n" + THEIRS.replace("jsonl_fpath: /data/", "jsonl_fpath: ${sif_dir}/")
    config = load_text(text)
    assert config.block("their_agent")["datasets"][0]["jsonl_fpath"] == "/images/train.jsonl"
    assert config.top("vars") == {"sif_dir": "/images"}
    assert load_text(text, "sif_dir=/x").block("their_agent")["datasets"][0]["jsonl_fpath"] == "/x/train.jsonl"
    assert Config.from_yaml(config.to_yaml()).top("vars") == {"sif_dir": "/images"}
    assert "unknown top-level key `sif_dri`" in fails("sif_dri: /images\n" + THEIRS)


def test_a_free_variable_in_our_own_file_belongs_under_vars(fails: Fail, load_text: Load) -> None:
    text = "%s\nm: {models_servers: {openai: {model: '${%s}'}}}"
    assert "a variable belongs under `vars`" in fails(text % ("size: 7b", "size"))
    assert load_text(text % ("vars: {size: 7b}", "vars.size")).block("m") == {"model": "7b"}


@pytest.mark.parametrize("key", ["port_range_low", "head_server", "skip_venv_if_present", "thinking_tags"])
def test_a_key_of_theirs_is_refused_in_a_file_of_ours(fails: Fail, key: str) -> None:
    assert f"config.yaml:1: `{key}`: a NeMo-Gym key" in fails(f"{key}: 1\nm: {{models_servers: {{openai: {{}}}}}}")


def test_an_inert_key_in_a_block_of_ours_is_refused_with_what_it_is(load_text: Load) -> None:
    from pydantic import BaseModel, ConfigDict

    class Ours(BaseModel):
        model_config = ConfigDict(extra="forbid")
        model: str = "m"

    config = load_text("m: {models_servers: {openai: {entrypoint: app.py, openai_model: x}}}")
    with pytest.raises(ConfigError) as caught:
        config.settings("m", Ours)
    assert (
        "`m.models_servers.openai.entrypoint`: a NeMo-Gym key (a server is found by its folder" in caught.value.message
    )
    assert "`m.models_servers.openai.openai_model`: a NeMo-Gym key (here `model`)" in caught.value.message


def test_a_server_block_beside_env_in_a_recipe_is_refused(fails: Fail) -> None:
    assert "`m`: a server block of a recipe belongs under `env.nemo_gym`" in fails(
        RECIPE + "m: {responses_api_models: {vllm_model: {}}}", *GIVEN
    )


def test_an_unknown_key_beside_nemo_gym_names_the_nearest(fails: Fail) -> None:
    text = RECIPE.replace("should_use_nemo_gym", "should_use_nemogym")
    assert "`env.should_use_nemogym`: unknown key; nearest: `should_use_nemo_gym`" in fails(text, *GIVEN)


def test_a_file_of_ours_comes_out_as_it_went_in(load_text: Load) -> None:
    text = "vars: {a: '${x.y}'}\nm: {models_servers: {openai: {name: n, value: v, description: d, verified: true}}}"
    config = load_text(text)
    assert config.notes == []
    assert config.block("m") == {"name": "n", "value": "v", "description": "d", "verified": True}
    assert load([], extra={"vars": {"b": 1}}).notes == []
