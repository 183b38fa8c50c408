"""From files and overrides to a run: inheritance, what is late, what is refused and how, the model server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from paddock.errors import ConfigError
from paddock.server.dialects.conversation import merge_sampling
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.read_config import RunConfig, read_config, register_of
from paddock.types.request_fields import SAMPLING

SERVERS: dict[str, Any] = {
    "pivot": {"resources_servers": {"pivot": {"comparator": "compat"}}},
    "agent": {
        "agents": {
            "single_step": {
                "resources_server": {"type": "resources_servers", "name": "pivot"},
                "model_server": {"type": "models_servers", "name": "policy_model"},
            }
        }
    },
}
SMALL: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 4, "num_generations_per_prompt": 8},
    "policy": {"model_name": "/models/tiny", "precision": "float32", "torch_cfg": {"device": "cpu"}},
    "data": {"train": {"data_path": "rows.jsonl"}},
    "env": {"nemo_gym": SERVERS},
}

UNSET = {*SAMPLING} - {"temperature", "top_p", "stop"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, tree: Any) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def read(folder: Path, changes: Any = None, *overrides: str, strict: bool = False) -> RunConfig:
    base = write(folder, "base.yaml", SMALL)
    child = write(folder, "child.yaml", {"defaults": "base.yaml", **(changes or {})})
    return read_config(child if changes else base, overrides, strict=strict)


def refused(folder: Path, changes: Any, *overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        read(folder, changes, *overrides)
    return str(error.value)


def vllm(found: RunConfig) -> dict[str, Any]:
    tree = yaml.safe_load(found.environment.to_yaml())
    block: dict[str, Any] = tree[found.model_server]["models_servers"]["vllm"]
    return block


def test_a_run_without_a_model_server_gets_one_from_the_policy(folder: Path) -> None:
    found = read(folder)
    assert found.model_server == "policy_model"
    assert vllm(found) == {
        "model": "/models/tiny",
        "python": "${oc.env:PADDOCK_VLLM_PYTHON,null}",
        "launch": {"dtype": "float32", "max_model_len": 4096, "weight_transfer": "gloo"},
        "sampling_overrides": dict.fromkeys(UNSET),
    }
    assert found.environment.references("agent") == ["pivot", "policy_model"]
    assert found.name == "base"


def test_what_is_said_of_generation_is_laid_over_the_composed_model_server(folder: Path) -> None:
    composed = {"config_paths": ["models_servers/vllm/configs/vllm.yaml"]}
    laid = {"generation": {"vllm": {"launch": {"replicas": 2}, "tool_parser": "qwen3_coder"}, "max_new_tokens": 64}}
    block = vllm(read(folder, {"env": {"nemo_gym": composed}, "policy": laid}))
    assert (block["model"], block["tool_parser"], block["max_tokens_per_turn"]) == ("/models/tiny", "qwen3_coder", 64)
    assert block["launch"]["replicas"] == 2


@pytest.mark.parametrize(
    ("engines", "error"),
    [
        ({"base_url": "http://h:1"}, "needs a vLLM that the run starts"),
        ({"base_url": "${oc.env:PADDOCK_NO_SUCH}"}, "needs a vLLM that the run starts"),
        ({"launch": {"replicas": 2}}, "one vLLM of one GPU"),
        ({"launch": {"gpus_per_replica": 2}}, "one vLLM of one GPU"),
    ],
)
@pytest.mark.parametrize("of_environment", [False, True])
def test_a_policy_takes_turns_with_one_engine_of_its_own(
    folder: Path, engines: Any, error: str, of_environment: bool
) -> None:
    generation: dict[str, Any] = {"colocated": {"enabled": True}}
    changes: dict[str, Any] = {
        "grpo": {"async_grpo": {"max_trajectory_age_steps": 0}},
        "policy": {"generation": generation},
    }
    assert vllm(read(folder, changes))["launch"].get("replicas", 1) == 1
    if of_environment:
        changes["env"] = {"nemo_gym": {"policy_model": {"models_servers": {"vllm": engines}}}}
    else:
        generation["vllm"] = engines
    assert error in refused(folder, changes)


def test_a_server_of_another_wire_gives_way_and_keeps_what_it_says_of_prompts(folder: Path) -> None:
    theirs = {
        "config_paths": ["responses_api_models/vllm_model/configs/vllm_model_for_training.yaml"],
        "policy_model": {"responses_api_models": {"vllm_model": {"chat_template_kwargs": {"enable_thinking": True}}}},
    }
    found = read(folder, {"env": {"nemo_gym": theirs}})
    assert [one.implementation for one in found.environment.instances.values() if one.kind == "models_servers"] == [
        "vllm"
    ]
    assert vllm(found)["chat_template_kwargs"] == {"enable_thinking": True}
    assert "base_url" not in vllm(found)


def test_nobody_cuts_the_distribution_that_training_samples_from(folder: Path) -> None:
    def with_overrides(**overrides: Any) -> Any:
        return {"policy": {"generation": {"vllm": {"sampling_overrides": overrides}}}}

    for key, value in {"temperature": 0.6, "top_p": None, "top_k": 20, "repetition_penalty": 1.1, "seed": 1}.items():
        told = refused(folder, with_overrides(**{key: value}))
        assert f"policy_model.models_servers.vllm.sampling_overrides.{key}" in told
        assert "policy.generation.temperature" in told
    assert vllm(read(folder, with_overrides(stop=["END"])))["sampling_overrides"] == {
        "stop": ["END"],
        **dict.fromkeys(UNSET),
    }
    validated = read(folder, {"policy": {"generation": {"val_top_k": 20}}})
    assert set(vllm(validated)["sampling_overrides"]) == {*UNSET} - {"top_k"}
    seeded = read(folder, {"policy": {"generation": {"seeded": True}}})
    assert set(vllm(seeded)["sampling_overrides"]) == {*UNSET} - {"seed"}
    row = {"temperature": 0.5, "top_k": 20, "min_p": 0.1, "seed": 1}
    overrides = vllm(read(folder))["sampling_overrides"]
    assert merge_sampling({"presence_penalty": 1.0}, row, overrides).params == {"temperature": 0.5}


def test_the_recipes_words_for_what_ends_an_answer_hold_for_every_answer(folder: Path) -> None:
    ends = {"stop_token_ids": [7, 9], "stop_strings": ["END"]}
    block = vllm(read(folder, {"policy": {"generation": ends}}))
    overrides = block["sampling_overrides"]
    assert overrides == {"stop_token_ids": [7, 9], "stop": ["END"], **dict.fromkeys(UNSET)}
    assert merge_sampling({"stop": ["mine"]}, {}, overrides).params == {"stop_token_ids": [7, 9], "stop": ["END"]}
    for wrong in ({"stop_token_ids": [-1]}, {"stop_strings": [""]}):
        assert f"policy.generation.{next(iter(wrong))}.0" in refused(folder, {"policy": {"generation": wrong}})
    assert "should be a valid list" in refused(folder, {"policy": {"generation": {"stop_strings": "END"}}})
    over_these = {**ends, "vllm": {"sampling_overrides": {"stop": ["OTHER"]}}}
    block = vllm(read(folder, {"policy": {"generation": over_these}}))
    assert block["sampling_overrides"]["stop"] == ["OTHER"]


def test_what_is_said_of_a_collection_is_named_as_without_effect(folder: Path) -> None:
    servers = SMALL["env"]["nemo_gym"]
    tree = {"env": {"nemo_gym": {**servers, "eval": {"limit": 3, "max_attempts": 2, "shard": "0/2"}}}}
    notes = {note.key for note in read(folder, tree).notes if note.kind == "inert"}
    assert notes == {"eval.limit", "eval.shard"}
    with pytest.raises(ConfigError, match=r"eval\.limit.*--strict refuses it"):
        read(folder, tree, strict=True)


def test_files_inherit_and_a_block_may_replace_the_inherited_one(folder: Path) -> None:
    write(folder, "first.yaml", {**SMALL, "logger": {"wandb": {"project": "one", "name": "run"}}})
    write(folder, "second.yaml", {"defaults": ["first.yaml"], "logger": {"wandb": {"project": "two"}}})
    last = write(
        folder, "last.yaml", {"defaults": "second.yaml", "logger": {"_override_": True, "wandb_enabled": True}}
    )
    assert read_config(folder / "second.yaml").config.logger.wandb.name == "run"
    assert read_config(last).config.logger.wandb.project == "paddock"
    write(folder, "first.yaml", {"defaults": "last.yaml"})
    with pytest.raises(ConfigError, match=r"first\.yaml -> .*second\.yaml -> .*first\.yaml|defaults of each other"):
        read_config(last)


def test_files_of_servers_are_found_beside_the_file_that_names_them(folder: Path) -> None:
    (folder / "below").mkdir()
    write(folder / "below", "servers.yaml", {"extra_pivot": SERVERS["pivot"]})
    changed = {**SMALL, "env": {"nemo_gym": {**SERVERS, "config_paths": ["servers.yaml"]}}}
    parent = write(folder / "below", "parent.yaml", changed)
    child = write(folder, "child.yaml", {"defaults": str(parent)})
    assert "extra_pivot" in read_config(child).environment.instances


def test_interpolations_are_read_now_but_for_the_servers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TEST_ROWS", "from-env.jsonl")
    monkeypatch.setenv("PADDOCK_TEST_SECRET", "geheim")
    changes: dict[str, Any] = {
        "steps": 7,
        "grpo": {"max_num_steps": "${steps}", "num_prompts_per_step": "${mul:2, ${half}}"},
        "half": 3,
        "data": {"train": {"data_path": "${oc.env:PADDOCK_TEST_ROWS}"}},
        "policy": {"generation": {"temperature": 0.5, "val_temperature": "${.temperature}"}},
        "env": {"nemo_gym": {"vars": {"rows": "${data.train.data_path}"}}},
    }
    changes["policy"]["generation"]["vllm"] = {"api_key": "${oc.env:PADDOCK_TEST_SECRET}"}
    found = read(folder, changes)
    assert (found.config.grpo.max_num_steps, found.config.grpo.num_prompts_per_step) == (7, 6)
    assert found.config.data.train.data_path == "from-env.jsonl"
    assert found.config.policy.generation.val_temperature == 0.5
    assert "geheim" not in found.environment.to_yaml() + found.config.model_dump_json()
    assert found.environment.block("policy_model")["api_key"] == "geheim"
    assert found.environment.top("vars")["rows"] == "from-env.jsonl"


def test_overrides_go_where_their_key_is(folder: Path) -> None:
    found = read(
        folder,
        None,
        "grpo.num_prompts_per_step=2",
        "env.nemo_gym.pivot.resources_servers.pivot.comparator=semantic",
        "eval.concurrency=3",
        "env.nemo_gym.thinking_tags=[<t>]",
        "policy_model.models_servers.vllm.launch.replicas=2",
        "~policy.torch_cfg",
    )
    assert found.config.grpo.num_prompts_per_step == 2
    assert found.environment.block("pivot")["comparator"] == "semantic"
    assert found.environment.top("eval") == {"concurrency": 3}
    assert found.config.env.nemo_gym.thinking_tags == ("<t>",)
    assert vllm(found)["launch"]["replicas"] == 2
    assert found.config.policy.torch_cfg.device == "auto"


@pytest.mark.parametrize(
    ("changes", "overrides", "message"),
    [
        ({"grpo": {"num_prompt_per_step": 3}}, [], r"child\.yaml:\d+: .*nearest: `grpo.num_prompts_per_step`"),
        ({"grpoo": {}}, [], "unknown key `grpoo`; nearest: `grpo`"),
        ({"policy": {"generation": {"vllm_cfg": {"max_num_seq": 3}}}}, [], "nearest: .*vllm_cfg.max_num_seqs"),
        ({}, ["grpo.num_promts_per_step=3"], "override `grpo.num_promts_per_step`"),
        ({}, ["pivott.resources_servers.pivot.comparator=compat"], "no instance `pivott`"),
        ({}, ["~policy.torch_config"], "nearest: `torch_cfg`"),
        ({"policy": {"max_total_sequence_length": "many"}}, [], "max_total_sequence_length"),
        ({"policy": {"train_global_batch_size": 7}}, [], "does not divide the 32 rollouts"),
        ({"data": {"train": {"data_path": "${nowhere}"}}}, [], "nothing sets `nowhere`"),
        ({"env": {"nemo_gym": {"agent": {"agents": {"single_stepp": {}}}}}}, [], "single_stepp"),
        ({"env": {"nemo_gym": None}}, [], "config_paths"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_nearest_right_name(
    folder: Path, changes: Any, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(folder, changes or {"grpo": {}}, *overrides)


def test_all_problems_are_told_at_once(folder: Path) -> None:
    text = refused(folder, {"grpo": {"use_best_at_k": True, "sed": 1}, "policy": {"model_name": "m", "is_vlm": True}})
    assert "3 problems" in text
    assert "grpo.sed" in text


def test_of_several_model_servers_that_agents_ask_one_needs_the_usual_name(folder: Path) -> None:
    front = {"models_servers": {"openai": {"base_url": "http://localhost:1/v1", "model": "m", "engine": "text"}}}
    servers: dict[str, Any] = {"_override_": True, "pivot": SERVERS["pivot"], "one": front, "two": front}
    for name in ("one", "two"):
        asks = {**SERVERS["agent"]["agents"]["single_step"], "model_server": {"type": "models_servers", "name": name}}
        servers[f"agent_of_{name}"] = {"agents": {"single_step": asks}}
    assert "`policy_model`" in refused(folder, {"env": {"nemo_gym": servers}})
    # A model server that no agent asks is another's, such as a judge.
    del servers["agent_of_two"]
    assert read(folder, {"env": {"nemo_gym": servers}}).model_server == "one"
    servers["agent_of_one"]["agents"]["single_step"]["model_server"]["name"] = "policy_model"
    assert read(folder, {"env": {"nemo_gym": servers}}).model_server == "policy_model"


def test_agents_that_ask_another_model_than_the_trained_one_are_refused(folder: Path) -> None:
    off = {"_copy": "policy_model", "models_servers": {"openai": {"chat_template_kwargs": {"enable_thinking": False}}}}
    front = {"models_servers": {"openai": {"base_url": "http://localhost:1/v1", "model": "m", "engine": "text"}}}
    asks = {**SERVERS["agent"]["agents"]["single_step"], "model_server": {"type": "models_servers", "name": "off"}}
    servers = {"policy_model": front, "off": off, "other_agent": {"agents": {"single_step": asks}}}
    assert "agents ask off too, but a run trains one model server, `policy_model`" in refused(
        folder, {"env": {"nemo_gym": servers}}
    )


def test_a_variable_that_is_not_set_is_said_once(folder: Path) -> None:
    message = refused(folder, {"data": {"train": {"data_path": "${oc.env:PADDOCK_TEST_ROWS}"}}, "grpo": {"seed": "x"}})
    assert "environment variable PADDOCK_TEST_ROWS is not set" in message
    assert message.count("data.train.data_path") == 1
    assert "`grpo.seed`" in message


class OldOmegaConf:
    """OmegaConf 2.3's registrations: the shorter name is of functions that get strings."""

    @staticmethod
    def register_resolver(name: str, resolver: Callable[..., Any]) -> None:
        raise AssertionError(f"{name} would get strings")

    @staticmethod
    def register_new_resolver(name: str, resolver: Callable[..., Any], *, replace: bool = False) -> None:
        raise NotImplementedError(name)


class NewOmegaConf:
    """OmegaConf 2.4's: the longer name warns."""

    @staticmethod
    def register_resolver(name: str, resolver: Callable[..., Any], *, replace: bool = False) -> None:
        raise NotImplementedError(name)

    @staticmethod
    def register_new_resolver(name: str, resolver: Callable[..., Any], *, replace: bool = False) -> None:
        raise AssertionError(f"{name} is registered by a deprecated name")


@pytest.mark.parametrize("api", [OldOmegaConf, NewOmegaConf])
def test_functions_of_interpolations_are_registered_where_they_get_their_arguments_with_types(api: type[Any]) -> None:
    with pytest.raises(NotImplementedError, match="mul"):
        register_of(api)("mul", int)


def test_experts_that_are_replayed_are_recorded_or_the_run_is_refused(folder: Path) -> None:
    replay = {"megatron_cfg": {"enabled": True}, "router_replay": {"enabled": True}}
    assert vllm(read(folder, {"policy": replay}))["routed_experts"] is True
    own = {"policy": {**replay, "router_replay": {"enabled": True, "mode": "R2"}}}
    assert "routed_experts" not in vllm(read(folder, own))
    off = {"policy": {**replay, "generation": {"vllm": {"routed_experts": False}}}}
    assert "policy.router_replay replays the engine's experts" in refused(folder, off)


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ({}, "router_replay.enabled is for a policy on Megatron-core"),
        ({"moe_router_load_balancing_type": "sinkhorn"}, "choose experts by ways of their own"),
        ({"model_overrides": {"moe_router_fusion": True}}, "choose experts by ways of their own"),
    ],
)
def test_what_can_not_replay_experts_is_refused(folder: Path, policy: Any, error: str) -> None:
    megatron = {"megatron_cfg": {"enabled": True, **policy}} if policy else {}
    assert error in refused(folder, {"policy": {**megatron, "router_replay": {"enabled": True}}})


def test_rows_are_padded_to_what_matrices_in_fp8_need() -> None:
    divisors = [
        MegatronConfig.model_validate({"enabled": True, **layout, "fp8_cfg": fp8}).length_divisor
        for layout in ({}, {"tensor_model_parallel_size": 3, "sequence_parallel": True}, {"context_parallel_size": 2})
        for fp8 in (None, {"enabled": True}, {"enabled": True, "fp8_recipe": "mxfp8"}, {"enabled": False})
    ]
    assert divisors == [1, 128, 32, 1, 3, 384, 96, 3, 4, 256, 64, 4]


@pytest.mark.parametrize("where", [{"precision": "float32"}, {"precision": "bfloat16", "torch_cfg": {"device": "cpu"}}])
def test_matrices_in_fp8_need_bfloat16_and_gpus(folder: Path, where: Any) -> None:
    fp8 = {"megatron_cfg": {"enabled": True, "fp8_cfg": {"enabled": True}}}
    assert "fp8_cfg.enabled needs precision bfloat16" in refused(folder, {"policy": {**fp8, **where}})
    kept = {"megatron_cfg": {"enabled": True, "fp8_cfg": {"enabled": False, "fp8_param": True}}}
    assert "fp8_cfg.fp8_param" in refused(folder, {"policy": {**kept, **where}})
