"""Claims about what a collection will do, before it starts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.collect import EvalSettings, Plan, Selection, make_plan
from paddock.collect.settings import selection
from paddock.config import Config, load, validate
from paddock.errors import ConfigError

ROW = {"responses_create_params": {"input": "q"}, "answer": "yes"}
MakeConfig = Callable[..., Config]
MakeRows = Callable[..., Path]


@given(st.integers(0, 30), st.none() | st.integers(0, 40), st.integers(1, 7), st.integers(0, 20), st.integers(0, 40))
def test_counting_selected_rows_agrees_with_looking_at_each(
    first: int, end: int | None, shards: int, low: int, high: int
) -> None:
    for shard in range(shards):
        chosen = Selection(first, end, shard, shards)
        assert chosen.n_between(low, high) == sum(map(chosen.takes, range(low, high)))


@pytest.mark.parametrize(
    ("given_settings", "chosen"),
    [
        ({}, Selection()),
        ({"limit": 5}, Selection(0, 5)),
        ({"slice": "3:9"}, Selection(3, 9)),
        ({"slice": "3:", "limit": 2}, Selection(3, 5)),
        ({"slice": ":9", "limit": 20}, Selection(0, 9)),
        ({"shard": "1/4"}, Selection(0, None, 1, 4)),
    ],
)
def test_slice_limit_and_shard_become_one_selection(given_settings: dict[str, Any], chosen: Selection) -> None:
    assert selection(EvalSettings(**given_settings)) == chosen


@pytest.mark.parametrize(
    "wrong", [{"slice": "3"}, {"slice": "a:b"}, {"slice": "-1:2"}, {"shard": "4/4"}, {"shard": "1"}]
)
def test_a_selection_that_can_not_be_read_names_its_setting(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"eval\.{next(iter(wrong))}: needs"):
        selection(EvalSettings(**wrong))


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"concurency.*nearest.*concurrency"):
        validate(EvalSettings, {"concurency": 4}, "eval")


def test_empty_lines_are_skipped_and_files_counted_on(make_config: MakeConfig, make_rows: MakeRows) -> None:
    one = make_rows([ROW, b"", b"  ", ROW], "one.jsonl")
    two = make_rows([ROW], "two.jsonl")
    plan = make_plan(make_config(), EvalSettings(rows=[str(one), str(two)], repeats=2))
    assert [(line.index, line.number, line.source.path.name) for line in plan.lines()] == [
        (0, 1, "one.jsonl"),
        (1, 4, "one.jsonl"),
        (2, 1, "two.jsonl"),
    ]
    assert (plan.n_rows, plan.n_rollouts) == (3, 6)


def test_rows_come_from_the_datasets_of_the_split(make_config: MakeConfig, make_rows: MakeRows) -> None:
    datasets = [
        {"name": "few", "type": "example", "jsonl_fpath": str(make_rows(2, "few.jsonl"))},
        {"name": "many", "type": "validation", "jsonl_fpath": str(make_rows(6, "many.jsonl")), "num_repeats": 4},
    ]
    config = make_config(agent={"datasets": datasets})
    plan = make_plan(config, EvalSettings(split="validation"))
    assert (plan.n_rows, plan.n_rollouts) == (6, 24)
    assert make_plan(config, EvalSettings(split="validation", repeats=1)).n_rollouts == 6
    with pytest.raises(ConfigError, match="types example, validation: choose with --split"):
        make_plan(config, EvalSettings())
    with pytest.raises(ConfigError, match="no agent has a dataset of type 'train'"):
        make_plan(config, EvalSettings(split="train"))


def test_no_rows_at_all_is_said(make_config: MakeConfig, make_rows: MakeRows) -> None:
    with pytest.raises(ConfigError, match="Name files with --rows; no agent has a dataset"):
        make_plan(make_config(), EvalSettings())
    with pytest.raises(ConfigError, match="leave none"):
        make_plan(make_config(), EvalSettings(rows=[str(make_rows(3))], slice="5:"))
    with pytest.raises(ConfigError, match=r"rows\.jsonl holds none"):
        make_plan(make_config(), EvalSettings(rows=[str(make_rows(0))]))


def test_a_row_file_that_is_not_there_names_the_nearest(make_config: MakeConfig, make_rows: MakeRows) -> None:
    path = make_rows(1)
    with pytest.raises(ConfigError, match=r"rowz\.jsonl.*rows\.jsonl"):
        make_plan(make_config(), EvalSettings(rows=[str(path.with_name("rowz.jsonl"))]))


def test_an_unknown_agent_in_the_first_row_is_refused_with_the_nearest(make_case: Callable[..., Plan]) -> None:
    with pytest.raises(ConfigError, match="no agent 'agnet'; nearest: 'agent'"):
        make_case([b"broken", {**ROW, "agent_ref": {"name": "agnet"}}])


def test_an_agent_of_another_name_runs_where_the_config_maps_it(make_case: Callable[..., Plan]) -> None:
    plan = make_case([{**ROW, "agent_ref": {"name": "theirs"}}], top={"agent_map": {"theirs": "agent"}})
    group = next(plan.groups())
    assert group.agent is not None
    assert group.row is not None
    assert group.row.agent_ref is not None
    assert (group.agent.name, group.row.agent_ref.name) == ("agent", "agent")


def test_a_row_without_an_agent_goes_to_the_one_asked_for(make_config: MakeConfig, make_rows: MakeRows) -> None:
    first = make_config()
    tree = {
        "second": {
            "agents": {
                "single_step": {
                    "resources_server": {"type": "resources_servers", "name": "environment"},
                    "model_server": {"type": "models_servers", "name": "policy"},
                }
            }
        }
    }
    config = make_config(**tree)
    rows = [str(make_rows([ROW]))]
    assert len(first.instances) == 3
    with pytest.raises(ConfigError, match=r"several agents: agent, second; name one with --agent"):
        make_plan(config, EvalSettings(rows=rows))
    group = next(make_plan(config, EvalSettings(rows=rows, agent="second")).groups())
    assert group.agent is not None
    assert group.agent.name == "second"
    with pytest.raises(ConfigError, match=r"eval\.agent: no agent 'secnd'; nearest: 'second'"):
        make_plan(config, EvalSettings(rows=rows, agent="secnd"))


def test_nothing_secret_is_written_with_a_run(
    make_config: MakeConfig, make_rows: MakeRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paddock.collect.identity import public_tree

    monkeypatch.setenv("SOME_KEY", "sk-environment")
    config = make_config(
        policy_api_key="sk-literal", vars={"judge_token": "sk-token", "other_key": "${oc.env:SOME_KEY,sk-default}"}
    )
    written = orjson.dumps(public_tree(config)).decode()
    assert "sk-" not in written
    assert public_tree(make_config(policy_api_key="${oc.env:SOME_KEY}"))["policy_api_key"] == "${oc.env:SOME_KEY}"
    plan = make_plan(config, EvalSettings(rows=[str(make_rows(1))]))
    assert "sk-" not in plan.identity.model_dump_json()


def test_passwords_in_urls_and_headers_are_secrets_too(make_config: MakeConfig) -> None:
    from paddock.collect.identity import public_tree

    values = {
        "judge_url": "https://user:hidden@host/v1",
        "request_headers": {"x-team": "hidden", "x-other": ["hidden"]},
    }
    assert "hidden" not in orjson.dumps(public_tree(make_config(vars=values))).decode()


def test_a_row_without_a_request_is_a_mistake_unless_its_agent_makes_the_prompt(
    make_config: MakeConfig, make_rows: MakeRows
) -> None:
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    own = {"maker": {"agents": {"swe": {**refers, "harness": "null"}}}}
    rows = make_rows([{"answer": "yes"}])
    for agent, mistaken in (("maker", False), ("agent", True)):
        plan = make_plan(make_config(**own), EvalSettings(rows=[str(rows)], agent=agent))
        (group,) = plan.groups()
        assert (group.error is not None) == mistaken
    assert group.error is not None
    assert "responses_create_params: missing" in group.error.message


@pytest.mark.parametrize("named", ["swe", "repositories"], ids=["by its name", "through agent_map"])
def test_rows_of_an_agent_that_makes_the_prompt_need_none_among_others(named: str, make_rows: MakeRows) -> None:
    block = {
        "resources_server": {"type": "resources_servers", "name": "swe_environment"},
        "model_server": {"type": "models_servers", "name": "model"},
    }
    tree = {
        "swe_environment": {"resources_servers": {"swe": {}}},
        "model": {"models_servers": {"openai": {"base_url": "http://127.0.0.1:1/v1", "model": "m"}}},
        "swe": {"agents": {"swe": {**block, "harness": "codeact"}}},
        "other": {"agents": {"single_step": block}},
        "agent_map": {"repositories": "swe"},
    }
    rows = [{"agent_ref": {"name": name}, "instance_id": name} for name in (named, "other")]
    plan = make_plan(load([], extra=tree), EvalSettings(rows=[str(make_rows(rows))]))
    of_swe, of_other = plan.groups()
    assert (of_swe.error, of_swe.agent and of_swe.agent.name) == (None, "swe")
    assert of_other.error is not None
    assert "responses_create_params: missing" in of_other.error.message
