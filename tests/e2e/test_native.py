"""Claims about native harnesses over own instances: known fixes, made with each harness's own tools, are paid.

All rollouts of a test are of one run: they share two cores well.
"""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from paddock.agents.swe.config import SweAgentConfig
from paddock.cli.configs import load_config
from paddock.config import find_file
from paddock.types import JsonObject

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(600)]
HARNESSES = ("codeact", "codex", "opencode")
AGENTS: dict[str, JsonObject] = {harness: {"harness": harness} for harness in HARNESSES}
ROWS: dict[str, JsonObject] = {
    row["instance_id"]: row
    for row in map(orjson.loads, find_file("resources_servers/swe/data/example.jsonl").read_bytes().splitlines())
}
BOLTONS, MISTUNE, SQLPARSE = ROWS
FIRST = {("codeact", SQLPARSE), ("codex", MISTUNE), ("opencode", BOLTONS)}


def rows(pairs: set[tuple[str, str]]) -> list[JsonObject]:
    """Of (agent, instance)."""
    return [{**ROWS[name], "agent_ref": {"name": agent}} for agent, name in sorted(pairs)]


@pytest.mark.long
def test_a_harness_solves_an_instance_with_its_own_tools(tmp_path: Path, play_fixes: Any) -> None:
    pair = ("opencode", BOLTONS)
    assert play_fixes(tmp_path, rows({pair}), AGENTS)[pair].problems() == ()


@pytest.mark.slow
def test_each_harness_solves_an_instance_with_its_own_tools_alone_and_in_a_mix(tmp_path: Path, play_fixes: Any) -> None:
    options = [{"harness": harness, "camel_case_tool_names": True} for harness in HARNESSES]
    mixed = {"harness": "null", "agent_prompt_overrides": options}
    pairs = FIRST | {("mixed", BOLTONS), ("gold", BOLTONS)}
    found = play_fixes(tmp_path, rows(pairs), {**AGENTS, "mixed": mixed, "gold": {"harness": "gold"}})
    assert found.keys() == pairs
    gold = found.pop(("gold", BOLTONS))  # paid as well, and not for edits
    assert gold.problems() == ("0 turns", "no command", "boltons/setutils.py: by no edit")
    assert {pair: solved.problems() for pair, solved in found.items()} == dict.fromkeys(found, ())
    assert all(call.name[0].isupper() and "_" not in call.name for call in found["mixed", BOLTONS].calls)


@pytest.mark.long
def test_each_harness_solves_every_other_instance(tmp_path: Path, play_fixes: Any) -> None:
    rest = {(harness, name) for harness in HARNESSES for name in ROWS} - FIRST
    found = play_fixes(tmp_path, rows(rest), AGENTS)
    assert {pair: solved.problems() for pair, solved in found.items()} == dict.fromkeys(rest, ())


def test_a_harness_of_the_command_line_takes_the_place_of_a_mix(tmp_path: Path) -> None:
    mix = {"swe_agent": {"agents": {"swe": {"run_with_mixed_prompts": True}}}}
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump(mix))
    files = ["agents/swe/configs/swe_agent.yaml", str(tmp_path / "mix.yaml")]
    mixing = load_config(files, modelless=True).settings("swe_agent", SweAgentConfig)
    assert [option.harness for option in mixing.options] == ["codeact", "opencode", "codex"]
    alone = load_config(files, modelless=True, harness="opencode").settings("swe_agent", SweAgentConfig)
    assert (alone.harness, list(alone.options)) == ("opencode", [])
