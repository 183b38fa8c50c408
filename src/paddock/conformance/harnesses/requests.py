"""What a harness asks its model: the task's words, tools by the task's names, the same for all members of a group."""

import contextlib
import datetime
import socket
import tempfile
from pathlib import Path
from typing import Any

import orjson

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.fixture import (
    PROMPT,
    SYSTEM,
    HarnessFixture,
    HarnessRun,
    HarnessTarget,
    harness_fixture,
    require_native,
)
from paddock.errors import ConfigError
from paddock.harness import Prompts, RunLimits, Template
from paddock.server.dialects import conversation
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

ONE_TURN = RunLimits(max_turns=1, time_s=20.0)
UNKNOWN_KEY = "no_such_key"


async def says_the_task(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        for system in (SYSTEM, None):
            request = (await _run_of_one_call(fixture, system=system)).requests[0]
            items = output_items(request["input"])
            users = [content_text(item.get("content")) for item in items if item.get("role") == "user"]
            expect(any(PROMPT in text for text in users), f"no user message holds the task's prompt: {users!r:.300}")
            before = [
                content_text(item.get("content")) for item in items if item.get("role") in ("system", "developer")
            ]
            before += [request["instructions"]] if request.get("instructions") else []
            if system is None:
                expect(SYSTEM not in before, "it has a system message that no task gave it")
            else:
                shown = any(SYSTEM in text for text in before) if target.runs_program else SYSTEM in before
                expect(shown, f"the task's system message is not there as it is: {before!r:.300}")


async def tools_are_well_formed(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        expect(tools.tools, "it shows no tools")
        names = tools.names
        expect(len(set(names)) == len(names), f"two tools have one name: {names}")
        for tool in tools.tools:
            _well_formed(tool)


def _well_formed(tool: JsonObject) -> None:
    name, kind = tool.get("name"), tool.get("type")
    expect(isinstance(name, str) and name, f"a tool has no name: {tool!r:.200}")
    expect(isinstance(tool.get("description", ""), str), f"{name}: its description is no text")
    expect(kind in ("function", "custom"), f"{name}: its type is {kind!r}")
    if kind == "custom":
        return
    schema = tool.get("parameters")
    expect(isinstance(schema, dict) and schema.get("type") == "object", f"{name}: its parameters are no object schema")
    assert isinstance(schema, dict)
    properties, required = schema.get("properties", {}), schema.get("required", [])
    expect(isinstance(properties, dict), f"{name}: its properties are no object")
    expect(isinstance(required, list), f"{name}: `required` is no list")
    missing = [key for key in required if key not in properties]
    expect(not missing, f"{name}: needs {missing}, which it does not have")


async def one_task_one_request(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        here = await _run_of_one_call(fixture)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            elsewhere = await _run_of_one_call(fixture)
        first = [_prompt(run) if target.runs_program else run.bodies[0] for run in (here, elsewhere)]
        expect(first[0] == first[1], f"two first requests differ: {_difference(*first)}")


async def nothing_of_this_machine(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        sandbox = await fixture.sandbox()
        run = await fixture.run([tools.shell("echo one")], sandbox=sandbox)
        run.expect_exit("finished")
        today = datetime.datetime.now(tz=datetime.UTC)
        local = datetime.datetime.now().astimezone()
        secrets = {
            sandbox.id: "the sandbox's id",
            str(Path.cwd()): "the working directory",
            str(Path(__file__)): "a path",
        }
        secrets |= {when.strftime(form): "the date" for when in (today, local) for form in _DATES}
        if len(socket.gethostname()) > 6:
            secrets[socket.gethostname()] = "this machine's name"
        bodies = b"\n".join(run.bodies)
        for text, what in secrets.items():
            expect(len(text) < 4 or text.encode() not in bodies, f"a request holds {what}, {text!r}")


_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%B %d, %Y", "%a %b %d %Y", "%d %B %Y", "%a %b %d")


async def tools_have_the_tasks_names(target: HarnessTarget) -> None:
    real = target.own_tools
    if not real:
        raise NotApplicable("it has no `own_tools`")
    async with harness_fixture(target) as fixture:
        plain = await fixture.tools()
        expect(sorted(plain.names) == sorted(real), f"it shows {plain.names}, and says that it has {real}")
        names = {name: f"Shown{number}" for number, name in enumerate(real)}
        tools = await fixture.tools(names)
        expect(sorted(tools.names) == sorted(names.values()), f"with the names {names} it shows {tools.names}")
        turns = [tools.shell("printf 'se%sen\\n' e")], [plain.shell("printf 'hid%sen\\n' d")]
        run = await fixture.run(*turns, closing=fixture.closing(tools), tool_names=names)
        exit_ = run.expect_exit("finished")
        expect("seeen" in run.texts[0], f"a call by a shown name came to {run.texts[0]!r:.200}")
        expect("hidden" not in run.texts[1], "a tool is known by its real name, which is not the shown one")
        expect(exit_.malformed == {"unknown_tool": 1}, f"a call by the real name is counted as {exit_.malformed}")


async def parameters_are_passed_on(target: HarnessTarget) -> None:
    require_native(target, "what samples a program's answers is set at the model server")
    params = {"temperature": 0.25, "top_p": 0.875, "max_output_tokens": 777}
    async with harness_fixture(target) as fixture:
        tools = await fixture.tools()
        run = await fixture.run([tools.shell("true")], params=params)
        expect(len(run.bodies) > 1, "it asked once only")
        for request in run.requests:
            sent = {key: request.get(key) for key in params}
            expect(sent == params, f"a request has {sent}, the task says {params}")


async def prompts_are_templates(target: HarnessTarget) -> None:
    harness = target.make()
    prompts = getattr(harness, "prompts", None)
    if prompts is None:
        raise NotApplicable("it has no prompts of its own")
    expect(isinstance(prompts, Prompts), f"its prompts are a {type(prompts).__name__}")
    expect(target.make().prompts == prompts, "two of it have other prompts")  # type: ignore[attr-defined]
    visible: JsonObject = {"problem_statement": PROMPT, "instance_id": "calc-1"}
    names = {name: name for name in target.own_tools}
    user = Template(prompts.user, "user").render(visible, "/testbed", names)
    expect(PROMPT.strip() in user, "its user prompt does not hold the problem statement")
    if prompts.system is not None:
        expect(
            Template(prompts.system, "system").render(visible, "/testbed", names).strip(), "its system prompt is empty"
        )


async def unknown_settings_are_refused(target: HarnessTarget) -> None:
    target.make()
    try:
        target.make(**{UNKNOWN_KEY: 1})
    except ConfigError as error:
        expect(UNKNOWN_KEY in error.message, f"the refusal does not name the key: {error.message}")
        return
    raise AssertionError("a setting that does not exist was accepted")


async def _run_of_one_call(fixture: HarnessFixture, **task: Any) -> HarnessRun:
    """Run the harness for one model call. Raises NotApplicable where it makes none."""
    run = await fixture.run(limits=ONE_TURN, closing=None, **task)
    if not run.bodies:
        raise NotApplicable("it makes no model request of its own")
    return run


def _prompt(run: HarnessRun) -> bytes:
    """Return what the model sees of a first request: programs add ids that it never sees."""
    parsed = conversation("responses", run.requests[0])
    items = [{key: value for key, value in item.items() if key != "id"} for item in parsed.items]
    return orjson.dumps([items, parsed.tools, parsed.arguments])


def _difference(left: bytes, right: bytes) -> str:
    at = next(
        (index for index, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return f"{left[max(0, at - 40) : at + 40]!r} and {right[max(0, at - 40) : at + 40]!r}"


SUITE = [
    Behaviour("it asks with the task's prompt, and with its system message where there is one", says_the_task),
    Behaviour("its tools are well formed, under different names", tools_are_well_formed),
    Behaviour("one task gives one first request, byte for byte", one_task_one_request),
    Behaviour("no request tells the date, this machine or the sandbox's id", nothing_of_this_machine),
    Behaviour("its tools have the task's names, and are known by no other", tools_have_the_tasks_names),
    Behaviour("the task's parameters are in every request", parameters_are_passed_on),
    Behaviour("its prompts are templates over what the environment shows", prompts_are_templates),
    Behaviour("a setting that there is not is refused by name", unknown_settings_are_refused),
]
