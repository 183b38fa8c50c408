"""The OpenHands SDK itself, over a scripted model and a real sandbox: what its tools do inside, and what is left.

Program the installed one, of the home that `paddock.sandbox` finds; without it these are skipped.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from paddock.conformance.harnesses import HarnessTarget, find_harness
from paddock.conformance.harnesses.fixture import FIX, FIXED, HarnessFixture, HarnessRun, harness_fixture
from paddock.conformance.harnesses.scripted_model import ScriptedReply
from paddock.errors import ConfigError
from paddock.harness import RunLimits
from paddock.harnesses.openhands_sdk.harness import OpenHandsSdkHarness
from paddock.sandbox import SandboxError, SandboxSettings
from paddock.testing.sandboxes import sandbox_home
from paddock.types import JsonObject
from paddock.types.responses import call_item, message_item

pytestmark = [pytest.mark.long, pytest.mark.sandbox]
LONG = RunLimits(max_turns=40, time_s=300.0, tool_s=60.0)


@pytest.fixture(scope="module")
def target() -> Iterator[HarnessTarget]:
    programs_of = SandboxSettings().home
    with sandbox_home() as home:
        found = SandboxSettings(home=home, runtime="bubblewrap", programs_of=programs_of)
        try:
            made = find_harness("harness:openhands_sdk", settings=found)
            asyncio.run(made.ready())
        except (ConfigError, SandboxError) as error:
            pytest.skip(str(error))
        yield made


async def run(fixture: HarnessFixture, *calls: JsonObject, **settings: Any) -> tuple[HarnessRun, OpenHandsSdkHarness]:
    harness: Any = fixture.target.make(**settings)
    finish = call_item("finish", json.dumps({"message": "Done."}))
    turns = [[call] for call in calls]
    return await fixture.run(*turns, harness=harness, limits=LONG, closing=[finish], system=None), harness


def shell(command: str, **more: Any) -> JsonObject:
    return call_item("terminal", json.dumps({"command": command, **more}))


def editor(command: str, path: str, **more: Any) -> JsonObject:
    return call_item("file_editor", json.dumps({"command": command, "path": path, **more}))


def results(ran: HarnessRun) -> list[str]:
    """Of all calls, in order."""
    found = []
    for item in ran.requests[-1]["input"]:
        if item.get("type") == "function_call_output":
            output = item["output"]
            found.append(output if isinstance(output, str) else "".join(part["text"] for part in output))
    return found


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_its_oracle_makes_the_fix_in_every_dialect(target: HarnessTarget, dialect: str) -> None:
    async with harness_fixture(target) as fixture:
        sandbox = await fixture.sandbox()
        harness: Any = target.make(dialect=dialect)
        ran = await fixture.run(*harness.oracle(FIX), harness=harness, sandbox=sandbox, limits=LONG, closing=None)
        assert (ran.exit.ended, ran.exit.malformed) == ("finished", {})
        for path, after in FIXED.items():
            assert await sandbox.out(f"cat /testbed/{path}") == after.strip()
        kept = [json.loads(line) for line in harness.artifacts["events.jsonl"].splitlines()]
        assert [event["kind"] for event in kept[:2]] == ["SystemPromptEvent", "MessageEvent"]
        assert str(harness._installed.folder) not in json.dumps([ran.requests, kept])


async def test_its_terminal_is_one_shell_of_the_sandbox(target: HarnessTarget) -> None:
    lines = [
        shell("cd docs && WORD=kept; printf '\\033[31mred\\033[0m 10%%\\r20%%\\n'; (exit 3)"),
        shell('echo "$? $WORD $PWD"'),
        shell("cat <<'EOF' | tr a-z A-Z\nlow\nEOF\necho after"),
        shell("find . -name notes.txt -exec echo found {} \\;"),
        shell("echo one\necho two"),
        shell("read -r said; echo got $said", timeout=2),
        shell("echo new"),
        shell("hello", is_input=True),
        shell("sleep 100", timeout=1),
        shell("C-c", is_input=True),
        shell("", reset=True),
        shell('echo "<$WORD>" $PWD'),
        shell("pip install requests"),
        shell("exit 7"),
        shell("echo again"),
    ]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *lines)
    assert ran.exit.ended == "finished", ran.error
    (moved, kept, here, found, two, waits, busy, typed, late, ended, reset, fresh, refused, gone, again) = results(ran)
    assert moved.startswith("20% 10%\n")
    assert moved.endswith("[Command finished with exit code 3]")
    assert "[Current working directory: /testbed/docs]" in moved
    assert kept.startswith("3 kept /testbed/docs\n")
    assert "LOW\nafter\n" in here
    assert found.startswith("found ./notes.txt\n")
    assert "Cannot execute multiple commands at once" in two
    assert "timed out after 2" in waits
    assert 'Your command "echo new" is NOT executed' in busy
    assert "got hello" in typed
    assert "timed out after 1" in late
    assert "CTRL+C was sent" in ended
    assert "has been reset" in reset
    assert fresh.startswith("<> /testbed\n")
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
        shell("hostname > /etc/only-inside; cat calc.py new.py"),
        editor("view", "/bin/sh"),
        editor("view", f"{deep}etc/only-inside"),
        editor("view", f"{deep}etc"),
        editor("create", "/proc/nothing", file_text="x"),
    ]
    async with harness_fixture(target) as fixture:
        ran, harness = await run(fixture, *acts)
    assert ran.exit.ended == "finished", ran.error
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
    assert told[10].startswith("def add(a, b):\n    return a + b\n")
    assert "\nx\n[The command completed" in told[10]
    assert "binary" in told[11]
    assert "1\t" in told[12]
    assert "only-inside" in told[13]
    assert "Ran into" in told[14]
    assert "mirror-" not in json.dumps([ran.requests, harness.artifacts["events.jsonl"].decode()])


async def test_words_without_a_call_end_its_run_and_a_cut_answer_is_said_so(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        harness: Any = fixture.target.make()
        ran = await fixture.run([message_item("All is well.")], harness=harness, limits=LONG, closing=None)
        assert (ran.exit.ended, ran.exit.turns, ran.exit.final) == ("finished", 1, "All is well.")
        harness = fixture.target.make()
        ran = await fixture.run(
            ScriptedReply([message_item("All is")], cut=True), harness=harness, limits=LONG, closing=None
        )
        assert ran.exit.turns == 1


async def test_what_a_policy_may_write_is_answered(target: HarnessTarget) -> None:
    calls = [
        call_item("terminal", '{"command": "ls'),
        call_item("terminal", '{"command": 5}'),
        call_item("nothing", "{}"),
        shell("a\0b"),
        editor("view", "/a\0b"),
        editor("str_replace", "/testbed/calc.py", old_str="a"),
        shell("echo well"),
    ]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *calls)
    assert (ran.exit.ended, ran.exit.turns) == ("finished", len(calls) + 1), ran.error
    assert len(results(ran)) == len(calls)
    assert results(ran)[-1].startswith("well\n")


async def test_an_answer_that_it_can_not_read_ends_its_run_as_the_policys(target: HarnessTarget) -> None:
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, shell("echo \udc00"))
    assert (ran.exit.ended, ran.exit.turns) == ("finished", 1)
    assert "surrogates" in (ran.exit.detail or "")


async def test_a_long_history_is_summed_up_where_it_is_told_to(target: HarnessTarget) -> None:
    lines = [shell(f"echo {number}") for number in range(8)]
    async with harness_fixture(target) as fixture:
        ran, _ = await run(fixture, *lines, condense={"max_size": 10})
    assert ran.exit.ended == "finished", ran.error
    assert any(
        len(after["input"]) < len(before["input"])
        for before, after in zip(ran.requests, ran.requests[1:], strict=False)
    )
