"""What a harness asks its model: the task's words, tools by the task's names, the same for all members of a group."""

import contextlib
import datetime
import socket
import tempfile
from pathlib import Path
from typing import Any

import orjson

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.stage import PROMPT, SYSTEM, HarnessSubject, Played, Stage, native, staged
from paddock.errors import ConfigError
from paddock.harness import Prompts, RunLimits, Template
from paddock.server.dialects import conversation
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

ONE_TURN = RunLimits(max_turns=1, time_s=20.0)
UNKNOWN_KEY = "no_such_key"


async def says_the_task(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        for system in (SYSTEM, None):
            request = (await _asked(stage, system=system)).requests[0]
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
                said = any(SYSTEM in text for text in before) if subject.runs_program else SYSTEM in before
                expect(said, f"the task's system message is not there as it is: {before!r:.300}")


async def tools_are_well_formed(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        expect(face.tools, "it shows no tools")
        names = face.names
        expect(len(set(names)) == len(names), f"two tools have one name: {names}")
        for tool in face.tools:
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
    missing = [one for one in required if one not in properties]
    expect(not missing, f"{name}: needs {missing}, which it does not have")


async def one_task_one_request(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        one = await _asked(stage)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            other = await _asked(stage)
        first = [_prompt(played) if subject.runs_program else played.raw[0] for played in (one, other)]
        expect(first[0] == first[1], f"two first requests differ: {_difference(*first)}")


async def nothing_of_this_machine(subject: HarnessSubject) -> None:
    async with staged(subject) as stage:
        face = await stage.face()
        room = await stage.room()
        played = await stage.play([face.shell("echo one")], room=room)
        played.ended("finished")
        today = datetime.datetime.now(tz=datetime.UTC)
        local = datetime.datetime.now().astimezone()
        telling = {room.id: "the sandbox's id", str(Path.cwd()): "the working directory", str(Path(__file__)): "a path"}
        telling |= {when.strftime(form): "the date" for when in (today, local) for form in _DATES}
        if len(socket.gethostname()) > 6:
            telling[socket.gethostname()] = "this machine's name"
        said = b"\n".join(played.raw)
        for text, what in telling.items():
            expect(len(text) < 4 or text.encode() not in said, f"a request holds {what}, {text!r}")


_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%B %d, %Y", "%a %b %d %Y", "%d %B %Y", "%a %b %d")


async def tools_have_the_tasks_names(subject: HarnessSubject) -> None:
    real = subject.own_tools
    if not real:
        raise NotApplicable("it has no `own_tools`")
    async with staged(subject) as stage:
        plain = await stage.face()
        expect(sorted(plain.names) == sorted(real), f"it shows {plain.names}, and says that it has {real}")
        names = {name: f"Shown{number}" for number, name in enumerate(real)}
        face = await stage.face(names)
        expect(sorted(face.names) == sorted(names.values()), f"with the names {names} it shows {face.names}")
        turns = [face.shell("printf 'se%sen\\n' e")], [plain.shell("printf 'hid%sen\\n' d")]
        played = await stage.play(*turns, closing=stage.closing(face), tool_names=names)
        left = played.ended("finished")
        expect("seeen" in played.texts[0], f"a call by a shown name came to {played.texts[0]!r:.200}")
        expect("hidden" not in played.texts[1], "a tool is known by its real name, which is not the shown one")
        expect(left.malformed == {"unknown_tool": 1}, f"a call by the real name is counted as {left.malformed}")


async def parameters_are_passed_on(subject: HarnessSubject) -> None:
    native(subject, "what samples a program's answers is set at the model server")
    params = {"temperature": 0.25, "top_p": 0.875, "max_output_tokens": 777}
    async with staged(subject) as stage:
        face = await stage.face()
        played = await stage.play([face.shell("true")], params=params)
        expect(len(played.raw) > 1, "it asked once only")
        for request in played.requests:
            found = {key: request.get(key) for key in params}
            expect(found == params, f"a request has {found}, the task says {params}")


async def prompts_are_templates(subject: HarnessSubject) -> None:
    harness = subject.make()
    prompts = getattr(harness, "prompts", None)
    if prompts is None:
        raise NotApplicable("it has no prompts of its own")
    expect(isinstance(prompts, Prompts), f"its prompts are a {type(prompts).__name__}")
    expect(subject.make().prompts == prompts, "two of it have other prompts")  # type: ignore[attr-defined]
    visible: JsonObject = {"problem_statement": PROMPT, "instance_id": "calc-1"}
    names = {name: name for name in subject.own_tools}
    user = Template(prompts.user, "user").render(visible, "/testbed", names)
    expect(PROMPT.strip() in user, "its user prompt does not hold the problem statement")
    if prompts.system is not None:
        expect(
            Template(prompts.system, "system").render(visible, "/testbed", names).strip(), "its system prompt is empty"
        )


async def unknown_settings_are_refused(subject: HarnessSubject) -> None:
    subject.make()
    try:
        subject.make(**{UNKNOWN_KEY: 1})
    except ConfigError as error:
        expect(UNKNOWN_KEY in error.message, f"the refusal does not name the key: {error.message}")
        return
    raise AssertionError("a setting that does not exist was accepted")


async def _asked(stage: Stage, **task: Any) -> Played:
    """A run of one model call."""
    played = await stage.play(limits=ONE_TURN, closing=None, **task)
    if not played.raw:
        raise NotApplicable("it makes no model request of its own")
    return played


def _prompt(played: Played) -> bytes:
    """What the model is shown of a first request: programs add ids that it never sees."""
    told = conversation("responses", played.requests[0])
    items = [{key: value for key, value in item.items() if key != "id"} for item in told.items]
    return orjson.dumps([items, told.tools, told.arguments])


def _difference(one: bytes, other: bytes) -> str:
    at = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"{one[max(0, at - 40) : at + 40]!r} and {other[max(0, at - 40) : at + 40]!r}"


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
