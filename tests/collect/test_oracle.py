"""Claims about `--oracle`: whose knowledge is played, by whose tools and under which names, and what can't be."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.collect.oracle import OraclePrompter, oracle_config
from paddock.config import load
from paddock.conformance.scripted import EnvironmentTask, ScriptedEnvironment
from paddock.errors import BugError, ConfigError, RowError
from paddock.harness import Exit, Model, OnStep, Prompts, RunLimits, Task, Workspace
from paddock.harness.native import TurnWriter
from paddock.types import Fix, JsonObject, Row, Stamp

HERE = __name__
PATCH = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n"


class OracleEnvironment(ScriptedEnvironment):
    asked: ClassVar[list[str]] = []
    started: ClassVar[list[str]] = []

    async def start(self) -> None:
        OracleEnvironment.started.append(self.name)

    async def fix(self, task: EnvironmentTask, row: Row) -> Fix:
        OracleEnvironment.asked.append(task.answer)
        if task.answer == "broken":
            raise RuntimeError("no such image")
        return Fix(patch=PATCH, workdir="/w", test_command="make test")


class Deaf(ScriptedEnvironment):
    """Knows turns, and no fix."""

    async def start(self) -> None:
        OracleEnvironment.started.append(self.name)


class Player1:
    """A harness that can be played; nothing of it runs here."""

    KIND: ClassVar[Any] = "harnesses"
    prompts = Prompts(user="Go.")
    own_tools = ("edit", "shell")

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        raise NotImplementedError

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        if fix.workdir != "/w":
            raise ValueError("it is binary")
        player = TurnWriter()
        player.custom("edit", fix.patch.decode())
        player.call("shell", command=fix.test_command)
        player.say("Done.")
        return player.turns


class Unplayed:
    KIND: ClassVar[Any] = "harnesses"

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        raise NotImplementedError


class Listener:
    """A model server that keeps what it is told."""

    name = "policy"

    def __init__(self) -> None:
        self.scripts: dict[str, list[list[JsonObject]]] = {}

    async def call(self, route: Any, request: Any, call: Any, **path: str) -> Any:
        self.scripts[path["secret"]] = request.turns
        return {}


Played = Callable[..., Any]


@pytest.fixture
def play(tmp_path: Path) -> Played:
    """The turns of a row, for an agent with the given harness; `run`: of a collection that runs."""

    async def played(
        harness: str, *, world: str = "OracleEnvironment", answer: str = "yes", run: bool = False, **block: Any
    ) -> Sequence[Any]:
        rows = tmp_path / "rows.jsonl"
        rows.write_text(json.dumps({"responses_create_params": {"input": []}, "answer": answer}))
        agent = {
            "resources_server": {"type": "resources_servers", "name": "world"},
            "model_server": {"type": "models_servers", "name": "policy"},
            "harness": harness,
            **block,
        }
        tree: JsonObject = {
            "world": {"resources_servers": {f"{HERE}:{world}": {}}},
            "agent": {"agents": {"swe": agent}},
            "policy": {"models_servers": {"openai": {"base_url": "http://127.0.0.1:9", "api_key": "", "model": "m"}}},
        }
        plan = make_plan(load([], extra=tree), EvalSettings(rows=[str(rows)]), oracle=True)
        assert oracle_config(plan).instance("policy").implementation == "replay"
        if run:
            await evaluate(plan, tmp_path / "run", quiet=True)
        listener = Listener()
        prompter = OraclePrompter(plan)
        prompter.peers = {"policy": listener}
        row = Row.from_wire(json.loads(rows.read_text()))
        await prompter.prepare(plan.router.agents["agent"], row.model_copy(update={"stamp": Stamp(group_id=0)}), "s")
        return listener.scripts["s"]

    return played


async def test_a_harness_plays_the_fix_with_its_own_tools(play: Played) -> None:
    OracleEnvironment.asked.clear()
    edit, shell, said = await play(f"{HERE}:Player1")
    assert (edit[0]["type"], edit[0]["name"], edit[0]["input"]) == ("custom_tool_call", "edit", PATCH.decode())
    assert (shell[0]["name"], json.loads(shell[0]["arguments"])) == ("shell", {"command": "make test"})
    assert said[0]["content"][0]["text"] == "Done."
    assert OracleEnvironment.asked == ["yes"]


async def test_calls_go_by_the_names_that_the_row_s_policy_is_shown(play: Played) -> None:
    edit, shell, _ = await play(f"{HERE}:Player1", agent_prompt_overrides=[{"camel_case_tool_names": True}])
    assert [(turn[0]["type"], turn[0]["name"]) for turn in (edit, shell)] == [
        ("custom_tool_call", "Edit"),
        ("function_call", "Shell"),
    ]


async def test_every_harness_of_a_mix_is_looked_at_before_anything_runs(play: Played) -> None:
    options = [{"harness": f"{HERE}:Player1"}, {"harness": f"{HERE}:Unplayed", "weight": 1e-9}]
    with pytest.raises(ConfigError, match=r"Unplayed knows no way"):
        await play("null", agent_prompt_overrides=options)


@pytest.mark.parametrize("harness", ["gold", "null"])
async def test_a_harness_that_is_not_played_gets_what_it_asks_for_and_no_fix(play: Played, harness: str) -> None:
    OracleEnvironment.asked.clear()
    turns = await play(harness)
    texts = [item["content"][0]["text"] for turn in turns for item in turn]
    assert texts == {"gold": ["yes"], "null": []}[harness]
    assert OracleEnvironment.asked == []


@pytest.mark.parametrize(
    ("harness", "world", "why"),
    [
        (f"{HERE}:Unplayed", "OracleEnvironment", "knows no way to play a known fix: its class has no `oracle`"),
        (f"{HERE}:Player1", "Deaf", "knows nothing that the harness .* could play: it has no `fix`"),
    ],
)
async def test_what_can_not_be_played_is_said_before_anything_runs(
    play: Played, tmp_path: Path, harness: str, world: str, why: str
) -> None:
    OracleEnvironment.started.clear()
    with pytest.raises(ConfigError, match=why):
        await play(harness, world=world, run=True)
    assert OracleEnvironment.started == []
    assert not (tmp_path / "run" / "run.json").exists()


async def test_what_an_environment_does_wrong_is_a_bug_and_no_verdict(play: Played) -> None:
    with pytest.raises(BugError, match="agent: oracle: RuntimeError: no such image"):
        await play(f"{HERE}:Player1", answer="broken")


async def test_a_fix_that_no_editor_of_text_can_make_is_the_rows(play: Played) -> None:
    class OtherFolder(OracleEnvironment):
        async def fix(self, task: EnvironmentTask, row: Row) -> Fix:
            return Fix(patch=PATCH, workdir="/elsewhere")

    globals()["OtherFolder"] = OtherFolder
    with pytest.raises(RowError, match="can't make the known fix with its tools: it is binary"):
        await play(f"{HERE}:Player1", world="OtherFolder")
