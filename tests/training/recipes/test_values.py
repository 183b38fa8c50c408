"""Each recipe has the values of its source, as a table with sources says them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.training.recipes.recipe_files import FOLDER, GIVEN, RecipeFile, files, recipe, written

from paddock.config import load

TABLES = yaml.safe_load(Path(__file__).with_name("values.yaml").read_text())
MEASURED = {
    # Training data parallel of the guides: GPUs that train, over TP x CP x PP.
    "super_rlvr1": 8,
    "super_swe1": 2,
    "super_swe2": 2,
    "super_rlhf": 16,
    "super_rlvr_convergence": 2,
    "super_swe1_convergence": 2,
    "super_swe2_convergence": 1,
    "super_rlhf_convergence": 8,
    "qwen3_swe1": 4,
    "qwen3_swe2": 2,
}
JUDGES_INSIDE = {"super_rlvr_b200": 5, "super_rlhf_b200": 8, "super_rlvr_small": 5, "super_rlhf_small": 8}
"""Nodes of judges that `cluster.num_nodes` of the recipes for B200 counts; those for H100 count none."""
JUDGED_BY_NL2BASH = {"multichallenge", "inverse_if"}
STARTED_WITH_JUDGE = {"math_with_judge", "lc_judge", "equivalence_llm_judge"}
STARTED = {
    *STARTED_WITH_JUDGE,
    *("workplace_assistant", "mcqa", "structured_outputs", "calendar", "reasoning_gym"),
}
JUDGED_FOR_SAFETY = {"jailbreak_detection", "over_refusal_detection"}
ELSEWHERE = {
    *JUDGED_BY_NL2BASH,
    *JUDGED_FOR_SAFETY,
    "code_gen",
    "instruction_following",
    "ns_tools",
    "math_formal_lean",
    "swerl_gen_resources_server",
}


class ValueRow(NamedTuple):
    source: str
    key: str
    value: Any


@pytest.fixture(autouse=True)
def set_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)


def rows(name: str) -> Iterator[ValueRow]:
    for table in TABLES:
        if name not in table["recipes"]:
            continue
        place = table["recipes"].index(name)
        for key, value in table["values"].items():
            each = isinstance(value, dict) and list(value) == ["each"]
            assert not each or len(value["each"]) == len(table["recipes"]), key
            yield ValueRow(table["source"], key, value["each"][place] if each else value)


def value_of(one: RecipeFile, key: str) -> Any:
    try:
        return one.value(key)
    except KeyError:
        return "not given"


def same(ours: Any, theirs: Any) -> bool:
    """Equal; numbers by value, a boolean is no number."""
    return isinstance(ours, bool) == isinstance(theirs, bool) and bool(ours == theirs)


def differing(name: str, *, servers: bool) -> list[str]:
    """`servers`: of their blocks; else of the recipe's own keys."""
    chosen = [row for row in rows(name) if row.key.startswith("@") == servers]
    told = [(row, value_of(recipe(name), row.key)) for row in chosen]
    return [f"{row.key}: {ours!r}, not {row.value!r}: {row.source}" for row, ours in told if not same(ours, row.value)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for table in TABLES for name in table["recipes"]}))
def test_a_recipe_has_the_values_of_its_source(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "nightly" in name or name == "qwen3_swe1":  # they name a model themselves
        monkeypatch.delenv("MODEL_PATH")
    assert differing(name, servers=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for table in TABLES for name in table["recipes"]}))
def test_its_servers_have_the_values_of_its_source(name: str) -> None:
    assert differing(name, servers=True) == []


def test_every_recipe_is_in_a_table() -> None:
    told = {name for table in TABLES for name in table["recipes"]}
    assert set(files()) - told == {"super_rlvr2", "super_rlvr3"} - told


@pytest.mark.parametrize("name", sorted(files()))
def test_nodes_make_whole_copies_of_the_model_and_whole_engines(name: str) -> None:
    one = recipe(name)
    if name == "one_gpu" or "nightly" in name:
        assert value_of(one, "cluster.num_nodes") == 1
        return
    inside = JUDGES_INSIDE.get(name, 0)
    nodes, sampling = (
        value_of(one, f"{key}.num_nodes") for key in ("cluster", "policy.generation.colocated.resources")
    )
    sizes = [value_of(one, f"policy.megatron_cfg.{size}_parallel_size") for size in ("tensor_model", "context")]
    copy = sizes[0] * sizes[1] * value_of(one, "policy.megatron_cfg.pipeline_model_parallel_size")
    training = (nodes - sampling - inside) * 8
    assert value_of(one, "policy.megatron_cfg.processes") == training
    assert training % copy == 0
    assert MEASURED.get(name, training // copy) == training // copy
    engines = value_of(one, "policy.generation.vllm.launch.replicas")
    assert engines * value_of(one, "policy.generation.vllm_cfg.tensor_parallel_size") == sampling * 8


@pytest.mark.slow
def test_the_stages_of_rlvr_differ_by_their_checkpoints_alone() -> None:
    first, second, third = (recipe(f"super_rlvr{number}").read for number in (1, 2, 3))
    for other in (second, third):
        assert written(other) == written(first)
        folders = {one.config.checkpointing.checkpoint_dir for one in (first, other)}
        assert len(folders) == 2
        for block in ("grpo", "loss_fn", "policy", "data", "env", "cluster"):
            assert getattr(other.config, block) == getattr(first.config, block)


@pytest.mark.slow
def test_environments_that_are_missing_here_are_declared_with_what_they_need() -> None:
    tree = written(recipe("super_rlvr1").read)
    servers = {name: one["resources_servers"] for name, one in tree.items() if "resources_servers" in one}
    elsewhere = {name: below["external"] for name, below in servers.items() if "external" in below}
    assert set(elsewhere) == ELSEWHERE
    judged = {name: " ".join(block.get("needs", [])) for name, block in elsewhere.items()}
    assert {name for name, needs in judged.items() if "nl2bash_judge_model" in needs} == JUDGED_BY_NL2BASH
    assert {name for name, needs in judged.items() if "safety_judge_model" in needs} == JUDGED_FOR_SAFETY
    started = {name: below["nemo_gym"] for name, below in servers.items() if "nemo_gym" in below}
    assert set(started) == STARTED
    judge = {"type": "models_servers", "name": "nl2bash_judge_model"}
    assert {name for name, one in started.items() if one["config"].get("judge_model_server") == judge} == (
        STARTED_WITH_JUDGE
    )
    assert "1024 processes, 10 s" in judged["code_gen"]
    agents = {name: one["agents"] for name, one in tree.items() if "agents" in one}
    assert {next(iter(one.values()))["resources_server"]["name"] for one in agents.values()} == set(servers)
    pivot_agents = {name for name, one in agents.items() if "single_step" in one}
    assert {name for name, one in agents.items() if "tools" not in one} == pivot_agents
    assert len(pivot_agents) == 3
    assert agents["workplace_assistant_simple_agent"]["tools"]["max_turns"] == 6
    pivots = [name for name, below in servers.items() if "pivot" in below]
    assert len(pivots) == 3
    b200 = written(recipe("super_rlvr_b200").read)
    assert "external" in b200["terminal_pivot"]["resources_servers"]


def test_the_judges_of_environments_are_those_of_the_source() -> None:
    """NVIDIA-NeMo/RL, examples/nemo_gym/nemotron-3-super/stage1_rlvr.yaml."""
    config = load([FOLDER / "nemotron_3_super/super_judges.yaml"])
    nl2bash, safety = (config.block(name) for name in ("nl2bash_judge_model", "safety_judge_model"))
    assert nl2bash["model"] == "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"
    assert safety["model"] == "nvidia/Nemotron-Content-Safety-Reasoning-4B"
    sizes = ("data_parallel_size", "tensor_parallel_size", "max_model_len", "gpu_memory_utilization")
    asked = [[block["launch"]["serve_kwargs"][size] for size in sizes] for block in (nl2bash, safety)]
    assert asked == [[2, 8, 131072, 0.85], [8, 1, 96000, 0.85]]
    assert nl2bash["launch"]["serve_kwargs"]["tool_call_parser"] == "hermes"
    assert nl2bash["launch"]["serve_kwargs"]["enable_expert_parallel"] is True
