"""Claims about what a harness that is played can know of the fix: nothing, until the model says it."""

import json
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from paddock.config import find_file
from paddock.harness import Exit, Model, OnStep, Prompts, RunLimits, Step, Task, Workspace
from paddock.harness.native import TurnWriter
from paddock.harness.native.fixes import changes
from paddock.types import Fix, JsonObject, patch_from_text
from paddock.types.responses import calls

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(600)]
LINES = find_file("resources_servers/swe/data/example.jsonl").read_bytes().splitlines()
ROW: JsonObject = next(row for row in map(orjson.loads, LINES) if "boltons" in row["instance_id"])
PATCH = patch_from_text(ROW["patch"]).decode().splitlines()
BEFORE = "\n".join(line for line in PATCH if not line.startswith("+"))
SECRETS = {line[1:].strip() for line in PATCH if line.startswith("+") and len(line.strip()) > 20}
SECRETS = {secret for secret in SECRETS if secret not in BEFORE}


class Spy:
    """Looks around, then does what the model says: whole files."""

    KIND: ClassVar[Any] = "harnesses"
    prompts = Prompts(user="{{ problem_statement }}")
    own_tools = ("put",)
    shown: ClassVar[list[str]] = []
    said: ClassVar[list[JsonObject]] = []

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        found = [task.model_dump_json(), repr(vars(self)), repr(limits)]
        for command in ("env", "cat /proc/*/environ /proc/*/cmdline 2>/dev/null", "git log -p --all | tail -c 300000"):
            found.append((await workspace.exec(["sh", "-c", command])).text())
        for secret in SECRETS:
            search = ["grep", "-rsIlF", "--", secret, "/testbed", "/tmp", "/home", "/root", "/etc", "/var", "/opt"]
            found.append((await workspace.exec(search)).text())
        Spy.shown = found
        for turn in range(1, 10):
            response = await model.respond({"input": task.prompt})
            Spy.said.append(response)
            report(Step(turn=turn, output=response["output"]))
            for call in calls(response):
                given = json.loads(call.arguments)
                await workspace.write(given["path"], given["text"].encode())
            if not calls(response):
                break
        return Exit(ended="finished", turns=turn)

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        player = TurnWriter()
        for change in changes(fix):
            player.call("put", path=change.path, text=change.text)
        player.say("Done.")
        return player.turns


@pytest.mark.slow
def test_of_the_fix_a_played_harness_sees_the_models_calls_alone(tmp_path: Path, play_fixes: Any) -> None:
    assert len(SECRETS) >= 3
    ((solved),) = play_fixes(tmp_path, [ROW], {"spy": {"harness": f"{__name__}:Spy"}}).values()
    assert solved.reward == 1.0
    problem, *around = Spy.shown
    assert ROW["problem_statement"][:40] in orjson.loads(problem)["prompt"]
    searched = around[-len(SECRETS) :]
    assert searched == [""] * len(SECRETS)
    assert not [secret for secret in SECRETS for text in Spy.shown if secret in text]
    assert [secret for secret in SECRETS if secret in json.dumps(Spy.said)]
