"""References between instances."""

from collections.abc import Callable

import pytest

from paddock.config import Config
from paddock.errors import ConfigError

Load = Callable[..., Config]
Fail = Callable[..., str]

SERVERS = """
policy_model: {models_servers: {openai: {}}}
judge_model: {models_servers: {openai: {}}}
pivot: {resources_servers: {pivot: %s}}
"""


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            "{judge: {type: models_servers, name: judge_modle}}",
            "judge`: no instance `judge_modle`; nearest: `judge_model`; instances of models_servers: judge_model, ",
        ),
        (
            "{a: {b: [{c: {type: models_servers, name: nobody}}]}}",
            "`pivot.resources_servers.pivot.a.b.0.c`: no instance `nobody`",
        ),
        ("{judge: {type: models_servers, name: pivot}}", "`pivot` is one of resources_servers, not of models_servers"),
        (
            "{judge: {type: model_servers, name: judge_model}}",
            "unknown server type `model_servers`; nearest: `models_servers`",
        ),
    ],
)
def test_a_reference_to_nothing_names_the_nearest_instance(fails: Fail, block: str, part: str) -> None:
    message = fails(SERVERS % block)
    assert message.startswith("config.yaml:4: ")
    assert part in message


def test_a_config_without_any_model_is_told_where_one_is(fails: Fail) -> None:
    message = fails("pivot: {resources_servers: {pivot: {judge: {type: models_servers, name: policy_model}}}}")
    assert "instances of models_servers: none; add a config that has a model, such as `configs/openai.yaml`" in message


@pytest.mark.parametrize(
    "block",
    [
        "{judge: {type: models_servers, name: judge_model}}",
        "{judge: {type: responses_api_models, name: judge_model}}",
        "{tool_choice: {type: function, name: bash}}",
        "{dataset: {type: models_servers, name: nobody, more: 1}}",
    ],
)
def test_what_is_no_reference_or_a_right_one_is_accepted(load_text: Load, block: str) -> None:
    assert "pivot" in load_text(SERVERS % block).instances


def test_their_name_of_a_server_type_is_read_as_ours(load_text: Load) -> None:
    config = load_text(SERVERS % "{judge: {type: responses_api_models, name: judge_model}}")
    assert config.block("pivot")["judge"] == {"type": "models_servers", "name": "judge_model"}


def test_a_reference_by_interpolation_is_checked_when_it_is_resolved(load_text: Load) -> None:
    text = "vars: {judge: %s}\n" + SERVERS % "{judge: {type: models_servers, name: '${vars.judge}'}}"
    assert load_text(text % "judge_model").block("pivot")["judge"]["name"] == "judge_model"
    with pytest.raises(ConfigError, match="no instance `judge_modle`; nearest: `judge_model`"):
        load_text(text % "judge_modle").block("pivot")


def test_a_reference_to_an_instance_that_is_wrong_itself_is_told_once(fails: Fail) -> None:
    text = "m: {models_servers: {opnai: {}}}\npivot: {resources_servers: {pivot: {j: {type: models_servers, name: m}}}}"
    message = fails(text)
    assert "problems" not in message
    assert "unknown implementation `opnai` of models_servers; nearest: `openai`" in message


def test_only_the_servers_to_be_used_need_their_references(load_text: Load, fails: Fail) -> None:
    text = """
    alone: {resources_servers: {pivot: {}}}
    agent: {agents: {single_step: {resources_server: {type: resources_servers, name: alone},
                                   model_server: {type: models_servers, name: policy_model}}}}
    """
    config = load_text(text, servers=["alone"])
    assert config.needed(["alone"]) == ["alone"]
    assert "no instance `policy_model`" in fails(text, servers=["agent"])
    again = Config.from_yaml(config.to_yaml(), servers=["alone"])
    assert again.block("alone") == {}
