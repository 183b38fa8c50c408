"""Claims about `exec_command` and `write_stdin` over a real sandbox: what a command is given, shown and left with."""

import asyncio
import re
import time
from typing import Any

import pytest
from tests.sampling import few

from paddock.harness import RunLimits, SandboxWorkspace
from paddock.harnesses.codex.sessions import CommandSession, SessionCommand

IF_NEVER = "if the approval policy is Never"
pytestmark = pytest.mark.sandbox


def told(text: str) -> tuple[str, str]:
    """How the process is, and its output."""
    found = re.fullmatch(
        r"Chunk ID: [0-9a-f]{6}\nWall time: 0\.0000 seconds\nProcess (.+)\nOriginal token count: \d+\nOutput:\n(.*)",
        text,
        re.DOTALL,
    )
    assert found is not None, text
    return found[1], found[2]


def session_of(text: str) -> int:
    found = re.search(r"running with session ID (\d+)", text)
    assert found is not None, text
    return int(found[1])


@pytest.mark.slow
async def test_a_result_says_how_it_ended_and_what_was_written_to_both_streams(codex: Any) -> None:
    call = codex()
    assert await call("exec_command", cmd="echo hi; echo err >&2; exit 3") == (
        "Chunk ID: 000001\nWall time: 0.0000 seconds\nProcess exited with code 3\n"
        "Original token count: 2\nOutput:\nhi\nerr\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "state", "output"),
    [
        ({"cmd": "pwd"}, "exited with code 0", "/testbed\n"),
        ({"cmd": "pwd", "workdir": "sub"}, "exited with code 0", "/testbed/sub\n"),
        ({"cmd": "pwd", "workdir": "/testbed/sub/.."}, "exited with code 0", "/testbed\n"),
        ({"cmd": ""}, "exited with code 0", ""),
        ({"cmd": "kill -9 $$"}, "exited with code 137", ""),
        ({"cmd": "cat; [ -t 0 ] || [ -t 1 ] || echo no terminal"}, "exited with code 0", "no terminal\n"),
        ({"cmd": "[ -t 0 ] && [ -t 1 ] && echo a terminal", "tty": True}, "exited with code 0", "a terminal\n"),
        ({"cmd": "exit 5", "tty": True}, "exited with code 5", ""),
        ({"cmd": "kill -9 $$", "tty": True}, "exited with code 137", ""),
        ({"cmd": "echo $NO_COLOR $TERM $PAGER"}, "exited with code 0", "1 dumb cat\n"),
        ({"cmd": "printf 'a\\n\\n\\n'"}, "exited with code 0", "a\n\n\n"),
        ({"cmd": "printf '\\377 a'"}, "exited with code 0", "\N{REPLACEMENT CHARACTER} a"),
        ({"cmd": 'echo "it\'s $((1+1))" \\\n and more'}, "exited with code 0", "it's 2 and more\n"),
        ({"cmd": "cd sub; x=1"}, "exited with code 0", ""),
    ],
)
async def test_a_command_runs_as_the_real_program_runs_it(
    codex: Any, arguments: dict[str, Any], state: str, output: str
) -> None:
    assert told(await codex()("exec_command", **arguments)) == (state, output)


@pytest.mark.parametrize(
    ("line", "code"),
    few([("exit 0", 0), ("exit 1", 1), ("exit 5", 5), ("exit 127", 127), ("kill -9 $$", 137)], [("exit 5", 5)]),
)
@pytest.mark.parametrize("first", ["", "sleep 0.4; "])
async def test_in_a_terminal_one_that_ends_before_it_is_in_the_foreground_is_told_the_same(
    workspace: SandboxWorkspace, first: str, line: str, code: int
) -> None:
    shell = await workspace.shell()
    await shell.run("fg() { sleep 0.2; builtin fg; }", wait_s=10)
    session = CommandSession(shell, SessionCommand(first + line, "/testbed", ["bash", "-c"], {}, tty=True))
    heard = await session.start(10)
    await session.close()
    assert (heard.exit_code, heard.buffer.text) == (code, "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"workdir": "/nosuch"}, "No such file or directory (os error 2)"),
        ({"workdir": "a.txt"}, "Not a directory (os error 20)"),
        ({"cmd": "a\0b"}, "nul byte found in provided data"),
    ],
)
async def test_a_command_that_cannot_start_is_told_as_the_real_program_tells_it(
    codex: Any, arguments: dict[str, Any], text: str
) -> None:
    said = await codex()("exec_command", **{"cmd": "pwd", **arguments})
    why = f"Failed to create unified exec process: {text}"
    assert said == f'exec_command failed: CreateProcess {{ message: "Rejected(\\"{why}\\")" }}'


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"login": True}, "login shell is disabled by config; omit `login` or set it to false."),
        ({"environment_id": "x"}, "unknown turn environment id `x`"),
        (
            {"sandbox_permissions": "require_escalated"},
            ("approval policy is Never; reject command — you cannot ask for escalated permissions " + IF_NEVER),
        ),
        ({"workdir": "a\0b"}, "'a\0b' is invalid on 'linux'"),
    ],
)
async def test_what_may_not_be_asked_for_is_refused_in_the_real_words(
    codex: Any, arguments: dict[str, Any], text: str
) -> None:
    assert await codex()("exec_command", cmd="true", **arguments) == text


async def test_each_command_starts_afresh(codex: Any) -> None:
    call = codex()
    await call("exec_command", cmd="cd sub; export x=1; y=2")
    assert told(await call("exec_command", cmd="pwd; echo [$x$y]"))[1] == "/testbed\n[]\n"


@pytest.mark.slow
async def test_a_command_that_goes_on_is_polled_until_it_ends_and_then_is_unknown(codex: Any) -> None:
    call = codex()
    first = await call("exec_command", cmd="echo a; sleep 3; echo b", yield_time_ms=1000)
    state, output = told(first)
    assert state.startswith("running with session ID ")
    assert output == "a\n"
    session = session_of(first)
    assert told(await call("write_stdin", session_id=session)) == ("exited with code 0", "b\n")
    assert await call("write_stdin", session_id=session) == f"write_stdin failed: Unknown process id {session}"


@pytest.mark.slow
async def test_a_terminal_can_be_typed_at_and_its_program_interrupted(codex: Any) -> None:
    call = codex()
    session = session_of(await call("exec_command", cmd="read x; echo got $x; sleep 60", tty=True, yield_time_ms=1000))
    state, output = told(await call("write_stdin", session_id=session, chars="hello\n", yield_time_ms=2000))
    assert state == f"running with session ID {session}"
    assert output.endswith("got hello\n")
    state, _ = told(await call("write_stdin", session_id=session, chars="\x03", yield_time_ms=30_000))
    assert state == "exited with code 130"


async def test_a_command_without_a_terminal_takes_no_text_but_can_be_interrupted(codex: Any) -> None:
    call = codex()
    session = session_of(await call("exec_command", cmd="sleep 60", yield_time_ms=250))
    closed = "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open"
    for chars in ("x\n", "\x04", "\x03\n"):
        assert await call("write_stdin", session_id=session, chars=chars) == f"write_stdin failed: {closed}"
    interrupted = await call("write_stdin", session_id=session, chars="\x03", yield_time_ms=30_000)
    assert told(interrupted) == ("exited with code 130", "")


@pytest.mark.slow
async def test_what_a_program_says_to_an_interrupt_is_shown_and_one_that_ignores_it_goes_on(codex: Any) -> None:
    call = codex()
    session = session_of(
        await call("exec_command", cmd="trap 'echo caught; exit 7' INT; sleep 60 & wait", yield_time_ms=1000)
    )
    interrupted = await call("write_stdin", session_id=session, chars="\x03", yield_time_ms=30_000)
    assert told(interrupted) == ("exited with code 7", "caught\n")
    session = session_of(await call("exec_command", cmd="trap '' INT; sleep 4; echo x", yield_time_ms=1000))
    state, _ = told(await call("write_stdin", session_id=session, chars="\x03"))
    assert state == f"running with session ID {session}"
    assert told(await call("write_stdin", session_id=session)) == ("exited with code 0", "x\n")


@pytest.mark.parametrize("tty", [False, True])
async def test_what_a_command_leaves_in_the_background_neither_delays_nor_outlives_it(codex: Any, tty: bool) -> None:
    call = codex()
    started = time.monotonic()
    assert told(await call("exec_command", cmd="sleep 97 & echo bg", tty=tty)) == ("exited with code 0", "bg\n")
    assert time.monotonic() - started < 60
    assert told(await call("exec_command", cmd="ps -e -o args"))[1].count("sleep 97") == 0


async def test_nothing_is_left_running_at_the_end(codex: Any, workspace: SandboxWorkspace) -> None:
    call = codex()
    for tty in (False, True):
        await call("exec_command", cmd="sleep 96", tty=tty, yield_time_ms=250)
    look = ["ps", "-e", "-ww", "-o", "args"]
    assert (await workspace.exec(look)).output.count(b"sleep 96") >= 2
    await call.box.close()
    assert b"sleep 96" not in (await workspace.exec(look)).output


@pytest.mark.parametrize(
    ("command", "most", "shown"),
    [
        ("seq 1 50", 10, (36, 50, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10…26 tokens truncated…4\n45\n46\n47\n48\n49\n50\n")),
        ("printf 'x%.0s' $(seq 1 81)", 20, (21, 1, "x" * 40 + "…1 tokens truncated…" + "x" * 40)),
        ("printf '日%.0s' $(seq 1 200)", 7, (150, 1, "日日日日…143 tokens truncated…日日日日")),
        ("seq 1 30000", 0, (42224, 30000, "…42224 tokens truncated…")),
        ("seq 1 30000", 1, (42224, 30000, "1\n…42223 tokens truncated…0\n")),
    ],
)
async def test_long_output_keeps_its_two_ends(codex: Any, command: str, most: int, shown: tuple[int, int, str]) -> None:
    count, lines, text = shown
    _, output = told(await codex()("exec_command", cmd=command, max_output_tokens=most))
    assert output == f"Warning: truncated output (original token count: {count})\nTotal output lines: {lines}\n\n{text}"


async def test_output_is_never_longer_than_the_profile_allows_and_its_middle_is_counted(codex: Any) -> None:
    _, output = told(
        await codex()("exec_command", cmd="head -c 2000000 /dev/zero | tr '\\0' x", max_output_tokens=10**9)
    )
    x = "x" * 20000
    assert output == (
        "Warning: truncated output (original token count: 500000)\n... 951424 bytes omitted ...\n\n"
        f"{x}…252152 tokens truncated…{x}"
    )


async def test_a_refused_command_says_so_and_does_not_run(codex: Any, guarded: SandboxWorkspace) -> None:
    call = codex(on=guarded)
    state, output = told(await call("exec_command", cmd="touch ran; shutdown now"))
    assert state == "exited with code 126"
    assert "Not run" in output
    assert "ran" not in told(await call("exec_command", cmd="ls"))[1].split()


async def test_no_rule_against_commands_is_met_by_what_is_put_around_them(
    codex: Any, guarded: SandboxWorkspace
) -> None:
    for tty in (False, True):
        said = await codex(on=guarded)("exec_command", cmd="echo a | cat; true && pwd", tty=tty)
        assert told(said) == ("exited with code 0", "a\n/testbed\n")
    assert not guarded.counts.refused


async def test_a_limit_on_tool_time_shortens_the_wait(codex: Any) -> None:
    call = codex(limits=RunLimits(tool_s=0.3))
    started = time.monotonic()
    assert "running" in told(await call("exec_command", cmd="sleep 80"))[0]
    assert time.monotonic() - started < 60


async def test_calls_side_by_side_get_numbers_in_their_order(codex: Any) -> None:
    call = codex()
    said = await asyncio.gather(*(call("exec_command", cmd=f"sleep 0.{3 - n}; echo {n}") for n in range(3)))
    assert [text[:16] for text in said] == [f"Chunk ID: 00000{n}" for n in (1, 2, 3)]
    assert [told(text)[1] for text in said] == ["0\n", "1\n", "2\n"]
