"""OpenHands' CodeActAgent itself, over a scripted model and a real sandbox: what its tools do inside, and what is left.

Program the installed one, of the home that `paddock.sandbox` finds; without it these are skipped.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from paddock.conformance.harnesses import HarnessTarget, find_harness
from paddock.conformance.harnesses.fixture import FIX, FIXED, HarnessFixture, HarnessRun, harness_fixture
from paddock.errors import ConfigError
from paddock.harness import RunLimits
from paddock.harnesses.openhands_v0.harness import OpenHandsV0Harness
from paddock.sandbox import SandboxError, SandboxSettings
from paddock.testing.sandboxes import sandbox_home
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.long, pytest.mark.sandbox]
LONG = RunLimits(max_turns=40, time_s=600.0, tool_s=60.0)


@pytest.fixture(scope="module")
def target() -> Iterator[HarnessTarget]:
    programs_of = SandboxSettings().home
    with sandbox_home() as home:
        found = SandboxSettings(home=home, runtime="bubblewrap", programs_of=programs_of)
        try:
            made = find_harness("harness:openhands_v0", settings=found)
            asyncio.run(made.ready())
        except (ConfigError, SandboxError) as error:
            pytest.skip(str(error))
        yield made


async def run(fixture: HarnessFixture, *calls: JsonObject, **settings: Any) -> tuple[HarnessRun, OpenHandsV0Harness]:
    harness: Any = fixture.target.make(**settings)
    finish = call_item("finish", json.dumps({"message": "Done."}))
    turns = [[call] for call in calls]
    return await fixture.run(*turns, harness=harness, limits=LONG, closing=[finish], system=None), harness


def shell(command: Any, **more: Any) -> JsonObject:
    return call_item("execute_bash", json.dumps({"command": command, **more, "security_risk": "LOW"}))


def editor(command: str, path: str, **more: Any) -> JsonObject:
    given = {"command": command, "path": path, **more, "security_risk": "LOW"}
    return call_item("str_replace_editor", json.dumps(given))


def results(ran: HarnessRun) -> list[str]:
    """Of all calls, in order."""
    found = []
    for item in ran.requests[-1]["input"]:
        if item.get("type") == "function_call_output":
            output = item["output"]
            found.append(output if isinstance(output, str) else "".join(part["text"] for part in output))
    return found


async def test_its_oracle_makes_the_fix_and_its_prompt_tells_the_sandbox_alone(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        sandbox = await fixture.sandbox()
        harness: Any = target.make()
        ran = await fixture.run(
            *harness.oracle(FIX), harness=harness, sandbox=sandbox, limits=LONG, closing=None, system=None
        )
        assert ran.error is None
        assert (ran.exit.ended, ran.exit.malformed) == ("finished", {})
        for path, after in FIXED.items():
            assert await sandbox.out(f"cat /testbed/{path}") == after.strip()
    first = json.dumps(ran.requests[0])
    assert "The current working directory is /testbed" in first
    assert "Today's date is 2026-01-01" in first
    assert "e.g. `/testbed/file.py`" in first
    assert "/workspace" not in first
    kept = [json.loads(line) for line in harness.left["events.jsonl"].splitlines()]
    assert [event.get("action") for event in kept[:2]] == ["system", "message"]
    assert kept[-1]["extras"]["agent_state"] == "finished"
    told = json.dumps([ran.requests, kept])
    assert str(harness._installed.folder) not in told
    assert "mirror-" not in told


async def test_its_terminal_is_one_shell_of_the_sandbox(target: HarnessTarget) -> None:
    lines = [
        shell("cd docs && WORD=kept; printf '\\033[31mred\\033[0m 10%%\\r20%%\\n'; (exit 3)"),
        shell('echo "$? $WORD $PWD"'),
        shell("cat <<'EOF' | tr a-z A-Z\nlow\nEOF"),
        shell("find . -name notes.txt -exec echo found {} \\;"),
        shell("echo one\necho two"),
        shell("read -r said; echo got $said", timeout=2),
        shell("echo new"),
        shell("hello", is_input="true"),
        shell("sleep 100", timeout=1),
        shell("C-c", is_input="true"),
        shell("pip install requests"),
        shell("exit 7"),
        shell("echo again"),
    ]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *lines)
    assert ran.error is None
    assert ran.exit.ended == "finished"
    moved, kept, here, found, two, waits, busy, typed, late, ended, refused, gone, again = results(ran)
    assert moved.startswith("20% 10%\n")
    assert moved.endswith("[Command finished with exit code 3]")
    assert "[Current working directory: /testbed/docs]" in moved
    assert kept.startswith("3 kept /testbed/docs\n")
    assert here.startswith("LOW\n")
    assert found.startswith("found ./notes.txt\n")
    assert "Cannot execute multiple commands at once" in two
    assert "timed out after 2" in waits
    assert 'Your command "echo new" is NOT executed' in busy
    assert "got hello" in typed
    assert "timed out after 1" in late
    assert "CTRL+C was sent" in ended
    assert "Not run" in refused
    assert "[The shell itself has ended" in gone
    assert again.startswith("again\n")


async def test_its_editor_works_on_the_files_of_the_sandbox(target: HarnessTarget) -> None:
    deep = "/testbed/" + "../" * 20
    acts = [
        editor("view", "/testbed"),
        editor("view", "/testbed/calc.py", view_range=[1, 2]),
        editor("str_replace", "/testbed/calc.py", old_str="a - b", new_str="a + b"),
        editor("insert", "/testbed/calc.py", insert_line=0, new_str="# é"),
        editor("undo_edit", "/testbed/calc.py"),
        editor("create", "/testbed/new dir/x.py", file_text="x\n"),
        editor("create", "/testbed/new.py", file_text="x\n"),
        editor("create", "/testbed/new.py", file_text="y\n"),
        editor("view", "calc.py"),
        editor("view", "/testbed/gone.py"),
        shell("echo x > /etc/only-inside; mkdir '/testbed/a;touch $HOME;b'; echo x > note.pdf; cat calc.py new.py"),
        editor("view", "/testbed/a;touch $HOME;b"),
        editor("view", "/bin/sh"),
        editor("view", f"{deep}etc/only-inside"),
        editor("create", "/proc/nothing", file_text="x"),
        editor("view", "/testbed/note.pdf"),
    ]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *acts)
    assert ran.error is None
    assert ran.exit.ended == "finished"
    told = results(ran)
    assert "/testbed/docs/\n/testbed/docs/notes.txt" in told[0]
    assert "     1\tdef add(a, b):\n     2\t    return a - b\n" in told[1]
    assert "The file /testbed/calc.py has been edited" in told[2]
    assert "     1\t# é" in told[3]
    assert "Last edit to /testbed/calc.py undone" in told[4]
    assert "while trying to write to /testbed/new dir/x.py" in told[5]
    assert told[6] == "File created successfully at: /testbed/new.py"
    assert "File already exists at: /testbed/new.py" in told[7]
    assert "Maybe you meant /testbed/calc.py?" in told[8]
    assert "The path /testbed/gone.py does not exist" in told[9]
    assert "def add(a, b):\n    return a + b\n" in told[10]
    assert "2 levels deep in /testbed/a;touch $HOME;b, excluding" in told[11]
    assert "binary" in told[12]
    assert "     1\tx" in told[13]
    assert "while trying to write to /proc/nothing" in told[14]
    assert "no converter" in told[15]


async def test_a_message_ends_it_and_an_answer_that_it_cant_read_too(target: HarnessTarget) -> None:
    ends = {
        "a message": ([message_item("Done.")], "Done."),
        "no object": ([call_item("execute_bash", "5")], None),
        "no line": ([shell(5)], None),
    }
    async with harness_fixture(target) as fixture:
        for items, final in ends.values():
            harness: Any = target.make()
            ran = await fixture.run(items, harness=harness, limits=LONG, closing=None, system="Be brief.")
            assert ran.error is None
            assert (ran.exit.ended, ran.exit.final) == ("finished", final)
            assert ran.requests[0]["input"][0]["content"] in (
                "Be brief.",
                [{"type": "input_text", "text": "Be brief."}],
            )
