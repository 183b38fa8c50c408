"""Claims about the harnesses' suite: ours and one from outside pass it, and each behaviour catches a broken one."""

import asyncio
import datetime
import json
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from pydantic import ConfigDict
from tests.sampling import few

from paddock.cli import main
from paddock.cli.configs import load_config
from paddock.conformance import run_behaviour, run_suite, suite_for
from paddock.conformance.harnesses import HarnessTarget, find_harness
from paddock.errors import ConfigError, InfraError, PaddockError
from paddock.harness import ContextExceeded, Exit, Model, Needs, OnStep, Prompts, RunLimits, Step, Task, Workspace
from paddock.harness.native import NativeHarness, NativeSettings, Toolbox, ToolResult, TurnWriter
from paddock.harnesses.gold import GoldHarness
from paddock.harnesses.null import NullHarness
from paddock.sandbox import SandboxError, SandboxSettings
from paddock.testing.native import ModelWithoutPrograms
from paddock.testing.sandboxes import sandbox_home
from paddock.types import Fix, JsonObject

pytestmark = pytest.mark.sandbox
OUTSIDE = Path(__file__).parents[1] / "harness" / "outside"
HARNESSES = Path(__file__).parents[2] / "harnesses"
FACES = [(file.parts[-3], file.stem) for file in sorted(HARNESSES.glob("*/profiles/*.json"))]


class RightTools(Toolbox):
    """Right."""

    async def t_bash(self, command: str) -> str:
        done = await self.workspace.exec(["bash", "-c", command], timeout_s=self.limits.tool_s)
        return f"{done.exit_code}\n{done.text()[:20000]}"

    async def t_finish(self, message: str) -> ToolResult:
        return ToolResult("", done=True, final=message)


class Right(NativeHarness):
    """Passes; each of the others has one defect."""

    TOOLBOX = RightTools
    TASK: ClassVar[dict[str, Any]] = {}
    LEFT: ClassVar[dict[str, Any]] = {}
    LIMITS: ClassVar[dict[str, Any]] = {}
    """What it makes of its task, its exit, its limits."""

    @classmethod
    def folder(cls) -> Path:
        return OUTSIDE

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        task, limits = task.model_copy(update=self.TASK), limits.model_copy(update=self.LIMITS)
        left = await super().run(task, workspace, self.asking(model), limits, report)
        return left.model_copy(update=self.LEFT)

    def asking(self, model: Model) -> Model:
        return Asking(model, self)

    def body(self, body: JsonObject) -> JsonObject:
        return body

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        player = TurnWriter()
        apply = f"printf %s {shlex.quote(fix.patch.decode())} | git apply"
        for line in ("ls", apply, *self.more(), fix.test_command):
            player.call("bash", command=line)
        player.call("finish", message="Done.")
        return player.turns

    def more(self) -> list[str]:
        return []


class Asking(ModelWithoutPrograms):
    """A model, with the harness's way of asking it."""

    def __init__(self, model: Model, harness: Right) -> None:
        self.name = model.name
        self._model = model
        self._harness = harness

    async def respond(self, body: JsonObject) -> JsonObject:
        return await self._model.respond(self._harness.body(body))


class DeafHarness(Right):
    TASK = {"prompt": "Do something."}


class Doubled(Right):
    def body(self, body: JsonObject) -> JsonObject:
        return {**body, "tools": [*body["tools"], body["tools"][0]]}


class Random(Right):
    def body(self, body: JsonObject) -> JsonObject:
        return {**body, "instructions": str(uuid.uuid4())}


class Dated(Right):
    def body(self, body: JsonObject) -> JsonObject:
        return {**body, "instructions": f"Today is {datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}."}


class Unnamed(Right):
    TASK = {"tool_names": {}}


class Parameterless(Right):
    TASK = {"params": {}}


class Wordless(Right):
    @property
    def prompts(self) -> Prompts:
        return Prompts(user="Fix it.")


class LaxSettings(NativeSettings):
    model_config = ConfigDict(extra="ignore")


class LaxHarness(Right):
    config_type = LaxSettings


class Bash(RightTools):
    """The tool, over what came."""

    async def t_bash(self, command: str) -> str:
        done = await self.workspace.exec(["bash", "-c", self.line(command)], timeout_s=self.limits.tool_s)
        return self.text(done)

    def line(self, command: str) -> str:
        return command

    def text(self, done: Any) -> str:
        return f"{done.exit_code}\n{done.text()[:20000]}"


class ElsewhereHarness(Right):
    class TOOLBOX(Bash):
        def line(self, command: str) -> str:
            return f"cd /tmp; {command}"


class Touchy(Right):
    class TOOLBOX(Bash):
        def text(self, done: Any) -> str:
            if done.exit_code:
                raise RuntimeError("the command failed")
            return super().text(done)


class Trusting(Right):
    class TOOLBOX(RightTools):
        def read_arguments(self, name: str, raw: str) -> JsonObject:
            """Whatever the model wrote, as the arguments of the method."""
            return dict(json.loads(raw))


class Mild(Right):
    class TOOLBOX(Bash):
        def text(self, done: Any) -> str:
            return "" if done.refused else super().text(done)


class StrictHarness(Right):
    class TOOLBOX(Bash):
        def text(self, done: Any) -> str:
            return str(done.output.decode())


class EndlessHarness(Right):
    class TOOLBOX(Bash):
        def text(self, done: Any) -> str:
            return done.text() * 10  # type: ignore[no-any-return]


class Tacit(Right):
    class TOOLBOX(Bash):
        def text(self, done: Any) -> str:
            return "" if done.timed_out else super().text(done)


class Uncounted(Right):
    LEFT = {"malformed": {}}


class Backwards(Right):
    def body(self, body: JsonObject) -> JsonObject:
        """The outputs of results, the other way round."""
        items = list(body["input"])
        outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
        return {**body, "input": [{**item, "output": outputs.pop()} if "output" in item else item for item in items]}


class Speechless(Right):
    def without_call(self, text: str) -> str | None:
        if not text:
            raise IndexError("no words")
        return None


class ForgetfulHarness(Right):
    def body(self, body: JsonObject) -> JsonObject:
        return {**body, "input": body["input"][:2] + body["input"][-2:]}


class Tidy(Right):
    def body(self, body: JsonObject) -> JsonObject:
        items = [{key: value for key, value in item.items() if key not in ("phase", "odd")} for item in body["input"]]
        return {**body, "input": items}


class Late(Right):
    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        steps: list[Step] = []
        left = await super().run(task, workspace, model, limits, steps.append)
        for step in steps:
            report(step)
        return left


class Boastful(Right):
    LEFT = {"turns": 99}


class MuteHarness(Right):
    LEFT = {"final": None}


class SharedTools(RightTools):
    last: ClassVar[Workspace]

    async def t_bash(self, command: str) -> str:
        done = await SharedTools.last.exec(["bash", "-c", command])
        return done.text()


class SharedHarness(Right):
    TOOLBOX = SharedTools

    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        SharedTools.last = workspace
        return await super().run(task, workspace, model, limits, report)


class Unlimited(Right):
    LIMITS = {"max_turns": None, "max_tokens": None}


class Punctual(Right):
    LEFT = {"ended": "finished"}


class Overfull(Right):
    def asking(self, model: Model) -> Model:
        return Raising(model, self)


class Raising(Asking):
    async def respond(self, body: JsonObject) -> JsonObject:
        try:
            return await super().respond(body)
        except ContextExceeded as error:
            raise InfraError(str(error), kind="context") from error


class StubbornHarness(Right):
    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        try:
            return await super().run(task, workspace, model, limits, report)
        except asyncio.CancelledError:
            return Exit(ended="finished", turns=1)


class Lingering(Right):
    def asking(self, model: Model) -> Model:
        return Shielded(model, self)


class Shielded(Asking):
    async def respond(self, body: JsonObject) -> JsonObject:
        return await asyncio.shield(super().respond(body))


class Chatty(Right):
    class TOOLBOX(RightTools):
        async def t_bash(self, command: str) -> str:
            try:
                return await super().t_bash(command)
            except SandboxError as error:
                return str(error)


class Content(Right):
    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        try:
            return await super().run(task, workspace, model, limits, report)
        except PaddockError:
            return Exit(ended="finished", turns=1)


class Wavering(Right):
    def more(self) -> list[str]:
        return [f"echo {uuid.uuid4()}"]


class CarelessHarness(Right):
    def more(self) -> list[str]:
        return ["echo more >> docs/notes.txt"]


class Idle(NullHarness):
    NEEDS: ClassVar[Needs] = "gold"

    def __init__(self, *, gold_patch: bytes) -> None:
        self.patch = gold_patch


class Busy(NullHarness):
    async def run(self, task: Task, workspace: Workspace, model: Model, limits: RunLimits, report: OnStep) -> Exit:
        await workspace.write("more.txt", b"more\n")
        return await super().run(task, workspace, model, limits, report)


BROKEN: dict[str, type[Any]] = {
    "it asks with the task's prompt, and with its system message where there is one": DeafHarness,
    "its tools are well formed, under different names": Doubled,
    "one task gives one first request, byte for byte": Random,
    "no request tells the date, this machine or the sandbox's id": Dated,
    "its tools have the task's names, and are known by no other": Unnamed,
    "the task's parameters are in every request": Parameterless,
    "its prompts are templates over what the environment shows": Wordless,
    "a setting that there is not is refused by name": LaxHarness,
    "a command runs in the workspace, and its output comes back": ElsewhereHarness,
    "a command that fails is a text for the model": Touchy,
    "a call of an unknown tool is answered and counted": Uncounted,
    "arguments that are no JSON are answered and counted": Uncounted,
    "a missing argument is answered and counted": Uncounted,
    "an argument that the tool does not have is no failure": Trusting,
    "a call that was cut off is counted and does not run": Uncounted,
    "calls of one turn are answered once each, in their order": Backwards,
    "a refused command is told to the model": Mild,
    "any bytes that a command writes become text": StrictHarness,
    "output without end is cut": EndlessHarness,
    "a command has a time limit of its own, and the run goes on": Tacit,
    "an answer that says nothing, or something new, is no crash": Speechless,
    "each request starts with the one before it": ForgetfulHarness,
    "the model's own items come back untouched, each with its results": Tidy,
    "each step is reported as it ends, from 1": Late,
    "the turns of its exit are its model calls": Boastful,
    "its last words are told": MuteHarness,
    "runs of one instance at the same time do not mix": SharedHarness,
    "a turn limit ends it, and what was done stays": Unlimited,
    "a token limit ends it, and what was done stays": Unlimited,
    "a time limit ends it in a command, and what was done stays": Punctual,
    "a time limit ends it in a model call": Punctual,
    "a context that is full ends it, and what was done stays": Overfull,
    "cancelled in a command, it leaves nothing": StubbornHarness,
    "cancelled in a model call, it leaves nothing": Lingering,
    "cancelled between turns, it does nothing more": StubbornHarness,
    "a sandbox that dies in a command is raised, and no model is told": Chatty,
    "a sandbox that is gone is raised, and no model is told": Chatty,
    "a model that fails is raised": Content,
    "its oracle is pure, and looks, edits, tests and finishes": Wavering,
    "its oracle makes exactly the fix": CarelessHarness,
    "a harness that needs the known fix makes it, and asks no model": Idle,
    "a known fix that does not apply is the row's fault": Idle,
    "a harness that needs nothing does nothing": Busy,
}
SAMPLED = [pytest.param(name, marks=[pytest.mark.slow] * bool(index % 3)) for index, name in enumerate(BROKEN)]


@pytest.fixture(scope="module")
def settings() -> Iterator[SandboxSettings]:
    with sandbox_home() as home:
        found = SandboxSettings(home=home, runtime="bubblewrap")
        try:
            asyncio.run(find_harness("harness:null", settings=found).ready())
        except (ConfigError, SandboxError) as error:
            pytest.skip(str(error))
        yield found


@pytest.fixture(scope="module")
def right(settings: SandboxSettings) -> HarnessTarget:
    """A harness that is as it should be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OUTSIDE)
        return find_harness("harness:my_harness:MyHarness", settings=settings)


@pytest.mark.slow
async def test_a_harness_from_outside_passes_all_that_is_about_it(right: HarnessTarget) -> None:
    results = await run_suite(suite_for("harness"), right)
    assert [one for one in results if one.outcome == "failed"] == []
    assert {one.behaviour for one in results if one.outcome == "skipped"} == {
        name for name, cls in BROKEN.items() if cls in (Idle, Busy)
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "profile"), few(FACES, [("codex", "default")], mark=pytest.mark.long))
async def test_our_native_harnesses_pass(name: str, profile: str, settings: SandboxSettings) -> None:
    target = find_harness(f"harness:{name}", settings=settings)._replace(block={"profile": profile})
    results = await run_suite(suite_for("harness"), target)
    assert [one for one in results if one.outcome == "failed"] == []
    assert sum(one.outcome == "passed" for one in results) >= 36


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "passed"),
    [
        (GoldHarness, {"a setting that there is not is refused by name", *(n for n, c in BROKEN.items() if c is Idle)}),
        (NullHarness, {"a setting that there is not is refused by name", *(n for n, c in BROKEN.items() if c is Busy)}),
    ],
)
async def test_a_harness_without_a_model_is_held_to_what_it_is_for(
    cls: type[Any], passed: set[str], right: HarnessTarget
) -> None:
    results = await run_suite(suite_for("harnesses"), right._replace(cls=cls, spec=cls.__name__))
    assert {one.behaviour for one in results if one.outcome == "passed"} == passed
    assert [one for one in results if one.outcome == "failed"] == []
    assert all(one.detail for one in results if one.outcome == "skipped")


@pytest.mark.slow
async def test_a_harness_that_asks_nobody_skips_what_is_about_asking(settings: SandboxSettings, tmp_path: Path) -> None:
    script = find_script(settings, tmp_path)
    assert script.block == {"commands": ["true"]}
    for one in await run_suite(suite_for("harness")[:4], script):
        assert (one.outcome, one.detail) == ("skipped", "it makes no model request of its own")


def find_script(settings: SandboxSettings, folder: Path) -> HarnessTarget:
    agent = {
        "resources_server": {"type": "resources_servers", "name": "swe"},
        "model_server": {"type": "models_servers", "name": "policy"},
        "harness": "script",
        "harness_config": {"commands": ["true"]},
    }
    tree = {"swe": {"resources_servers": {"swe": {}}}, "agent": {"agents": {"swe": agent}}}
    (folder / "case.yaml").write_text(yaml.safe_dump(tree))
    config = load_config([str(folder / "case.yaml")], modelless=True)
    with pytest.raises(ConfigError, match="no agent of the config has the harness gold"):
        find_harness("harness:gold", config=config, settings=settings)
    return find_harness("harness:script", config=config, settings=settings)


@pytest.mark.parametrize("behaviour", SAMPLED)
async def test_a_broken_harness_fails(behaviour: str, right: HarnessTarget) -> None:
    check = next(one for one in suite_for("harness") if one.name == behaviour)
    result = await run_behaviour(check, right._replace(cls=BROKEN[behaviour], spec="broken"), timeout_s=20.0)
    assert result.outcome == "failed"
    assert result.detail


@pytest.mark.slow
async def test_the_base_of_the_broken_ones_is_whole(right: HarnessTarget) -> None:
    target = right._replace(cls=Right, spec="right")
    for name in ("its oracle makes exactly the fix", "cancelled in a command, it leaves nothing"):
        check = next(one for one in suite_for("harness") if one.name == name)
        result = await run_behaviour(check, target)
        assert (result.outcome, result.detail) == ("passed", "")


def test_every_behaviour_is_proven_to_fail() -> None:
    assert {behaviour.name for behaviour in suite_for("harness")} == set(BROKEN)


@pytest.mark.slow
def test_the_command_checks_a_harness_from_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: SandboxSettings
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(settings.home))
    monkeypatch.chdir(OUTSIDE)
    assert main(["check", "harness:my_harness:MyHarness", "--only", "last words"]) == 0
    assert "1 behaviours, 0 broken" in capsys.readouterr().out
