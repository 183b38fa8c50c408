"""Each recipe resolves under `paddock train CONFIG --dry-run`, with nothing set and nothing there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.training.recipes.recipe_files import FOLDER, GIVEN, SHARED, comment, files, recipe

from paddock.cli import main
from paddock.training.grpo.preflight import PACKAGES

QUICK = ("qwen3_swe2", "one_gpu")
"""The others are planned by slow tests."""
SLOW = sorted(set(files()) - set(QUICK))
UNREAD = {
    "grpo.penalize_invalid_tool_call",
    "grpo.penalize_malformed_thinking",
    "policy.megatron_cfg.moe_aux_loss_coeff",
    "policy.megatron_cfg.moe_router_enable_expert_bias",
}

UNREAD_OF_QWEN3 = {
    "grpo.invalid_tool_call_strategy",
    "policy.generation.vllm_cfg.enforce_monotonicity",
    "policy.generation.vllm_cfg.enable_thinking",
}
UNREAD_OF_SWE2 = {
    f"env.nemo_gym.swe_agents_train.responses_api_agents.swe_agents.{key}"
    for key in ("run_with_mixed_prompts", "dataset_path")
}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in GIVEN:
        monkeypatch.delenv(name, raising=False)


def plan(name: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    needed = recipe(name).value("cluster.num_nodes") == 1
    lacks = needed and any(find_spec(package) is None for package in PACKAGES)
    assert main(["train", str(files()[name]), "--dry-run", *arguments]) == (2 if lacks else 0)
    return capsys.readouterr().out


def check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = plan(name, capsys)
    assert re.search(r"^deviations from .+: none$|^deviations from .+ \(\d+\):$", told, re.MULTILINE)
    missing = told[told.index("missing before a start (") :]
    read = {match[1] for match in re.finditer(r"oc\.env:(\w+)\}", comment_and_text(name))}
    assert {name for name in read if name in missing} == read
    nodes = recipe(name).value("cluster.num_nodes")
    assert (f"cluster.num_nodes is {nodes}, and without cluster.address a run has this machine alone" in missing) == (
        nodes > 1
    )
    for key in unread(name):
        assert re.search(rf"^  {re.escape(key)}: NeMo-(RL|Gym) ", told, re.MULTILINE), key


def unread(name: str) -> set[str]:
    """What the recipe gives and its own trainer and environments do not read."""
    if name == "one_gpu":
        return set()
    qwen = UNREAD_OF_QWEN3 if name.startswith("qwen3") else set()
    return UNREAD | qwen | (UNREAD_OF_SWE2 if "swe2" in name else set())


def comment_and_text(name: str) -> str:
    """Of the file alone, without what it inherits."""
    return files()[name].read_text()


@pytest.mark.parametrize("name", QUICK)
def test_a_recipe_is_planned(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(name, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_the_other_recipes_are_planned(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(name, capsys)


@pytest.mark.slow
def test_environments_elsewhere_are_listed_with_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    told = plan("super_rlvr1", capsys)
    assert (
        "  multichallenge: resources_servers external, elsewhere: ${oc.env:MULTICHALLENGE_URL}; needs a judge" in told
    )
    assert "  lc_judge: resources_servers nemo_gym, NeMo-Gym's equivalence_llm_judge, started here" in told
    assert "environment variable MULTICHALLENGE_URL is not set" in told
    assert "environment variable NL2BASH_JUDGE_URL is not set" in told
    assert "MCQA_URL" not in told
    set_now = plan("super_rlvr1", capsys, "multichallenge.resources_servers.external.base_url=http://10.0.0.7:5003")
    assert "elsewhere: http://10.0.0.7:5003" in set_now
    assert "MULTICHALLENGE_URL" not in set_now


def test_a_recipe_of_many_machines_is_refused_at_a_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    assert main(["train", str(files()["super_swe1"])]) == 2
    assert (
        "cluster.num_nodes is 64, and without cluster.address a run has this machine alone" in capsys.readouterr().err
    )


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda path: path.stem)
def test_a_file_begins_with_its_command_and_its_source(path: Path) -> None:
    said = comment(path)
    assert "paddock train configs/recipes/" in said or "paddock serve configs/recipes/" in said
    command = " ".join(said.split("\n#\n")[0].replace("\\\n#", "").split())
    named = re.search(r"paddock \w+ (configs/\S+)", command)
    assert named is not None
    if SHARED not in said.lower():
        assert Path(named[1]) == path.relative_to(FOLDER.parents[1])
        assert "Source:" in said
    else:
        assert (FOLDER.parents[1] / named[1]).is_file()
