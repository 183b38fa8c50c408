"""Claims about the shell tool, over real sandboxes: what it says of a command that ends, runs on, or is not run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.harness import SandboxWorkspace
from paddock.sandbox.blocklist import Blocklist

pytestmark = pytest.mark.sandbox
Tools = Callable[..., Awaitable[Callable[..., Awaitable[str]]]]
Open = Callable[..., Awaitable[SandboxWorkspace]]
ENDED = "\n[Current working directory: /testbed]\n[Command finished with exit code {}]"


@pytest.mark.slow
async def test_a_result_is_the_output_the_folder_and_the_exit_code(open_tools: Tools) -> None:
    call = await open_tools()
    assert await call("execute_bash", command="echo hi; echo there >&2") == "hi\nthere" + ENDED.format(0)
    assert await call("execute_bash", command="false", security_risk="LOW") == ENDED.format(1)


@pytest.mark.slow
async def test_the_shell_keeps_its_folder_and_variables(open_tools: Tools) -> None:
    call = await open_tools()
    await call("execute_bash", command="cd src && x=5")
    said = await call("execute_bash", command="echo $x $?")
    assert said == "5 0\n[Current working directory: /testbed/src]\n[Command finished with exit code 0]"


@pytest.mark.slow
async def test_a_quiet_command_is_left_running_and_can_be_polled_typed_at_and_ended(open_tools: Tools) -> None:
    call = await open_tools(no_change_timeout_s=0.5)
    waits = await call("execute_bash", command="echo name?; read name; echo hello $name; read more")
    assert waits.startswith("name?\n[The command has no new output after 0.5 seconds. ")
    polled = await call("execute_bash", command="")
    assert polled.startswith("[Below is the output of the previous command.]\n\n[The command has no new output")
    typed = await call("execute_bash", command="Ada", is_input="true")
    assert "hello Ada\n[The command has no new output" in typed
    busy = await call("execute_bash", command="ls")
    assert '[Your command "ls" is NOT executed. The previous command is still running' in busy
    assert "Error" not in busy
    ended = await call("execute_bash", command="C-c", is_input="true")
    assert ended.endswith(ENDED.format(130))
    assert await call("execute_bash", command="echo again") == "again" + ENDED.format(0)


async def test_what_a_command_wrote_while_nobody_asked_is_told_with_its_end(open_tools: Tools) -> None:
    call = await open_tools(no_change_timeout_s=0.3)
    left = await call("execute_bash", command="sleep 0.8; echo late; (exit 3)")
    assert "no new output after 0.3 seconds" in left
    assert await call("execute_bash", command="", timeout=20) == "late" + ENDED.format(3)


async def test_a_timeout_of_its_own_leaves_a_command_running_even_if_it_writes(open_tools: Tools) -> None:
    call = await open_tools()
    left = await call("execute_bash", command="while true; do echo x; sleep 0.1; done", timeout=0.4)
    assert "\n[The command timed out after 0.4 seconds. " in left
    # bash itself takes no notice where the sleep ends in that very moment: the next one finds it.
    said = [await call("execute_bash", command="C-c", is_input="true", timeout=3)]
    while "timed out after 3.0 seconds" in said[-1] and len(said) < 10:
        said.append(await call("execute_bash", command="C-c", is_input="true", timeout=3))
    assert said[-1].endswith("exit code 130]")


async def test_a_call_takes_no_longer_than_a_tool_may(open_tools: Tools) -> None:
    call = await open_tools(tool_s=0.4)
    assert "timed out after 0.4 seconds" in await call("execute_bash", command="sleep 30", timeout=60)


async def test_ctrl_d_ends_what_reads_and_ctrl_z_stops(open_tools: Tools) -> None:
    call = await open_tools(no_change_timeout_s=0.3)
    await call("execute_bash", command="cat")
    assert (await call("execute_bash", command="C-d", is_input="true")).endswith(ENDED.format(0))


@pytest.mark.parametrize(
    ("command", "is_input", "what"),
    [("", "false", "retrieve logs from"), ("", "true", "retrieve logs from"), ("x", "true", "interact with")],
)
async def test_there_must_be_a_command_to_poll_or_type_at(
    open_tools: Tools, command: str, is_input: str, what: str
) -> None:
    call = await open_tools()
    said = await call("execute_bash", command=command, is_input=is_input)
    assert said == f"ERROR: No previous running command to {what}.\n[Error occurred in processing last action]"


async def test_two_commands_on_lines_of_their_own_are_refused_and_neither_runs(open_tools: Tools) -> None:
    call = await open_tools()
    said = await call("execute_bash", command="touch /tmp/x\nfor i in 1 2; do\n echo $i\ndone")
    assert said.startswith("ERROR: Cannot execute multiple commands at once.\n")
    assert "(1) touch /tmp/x\n(2) for i in 1 2; do\n echo $i\ndone" in said
    assert (await call("execute_bash", command="test -e /tmp/x")).endswith("exit code 1]")


async def test_commands_may_be_many_where_the_profile_says_so(open_tools: Tools) -> None:
    call = await open_tools(one_command=False)
    assert await call("execute_bash", command="echo a\necho b") == "a\nb" + ENDED.format(0)


async def test_long_output_loses_its_middle(open_tools: Tools) -> None:
    call = await open_tools()
    said = await call("execute_bash", command="head -c 40000 /dev/zero | tr '\\0' x; printf end")
    output = said.removesuffix(ENDED.format(0))
    assert output == "x" * 15_000 + "\n[... Observation truncated due to length ...]\n" + "x" * 14_997 + "end"


async def test_a_shell_that_ends_is_replaced(open_tools: Tools) -> None:
    call = await open_tools()
    assert "[The shell itself has ended. The next command starts a new one.]" in await call(
        "execute_bash", command="exit 3"
    )
    assert (await call("execute_bash", command="echo new")).startswith("new\n")


async def test_a_refused_command_shows_why_and_does_not_run(open_tools: Tools, open_workspace: Open) -> None:
    space = await open_workspace(blocklist=Blocklist())
    call = await open_tools(workspace=space)
    said = await call("execute_bash", command="touch /tmp/ran; shutdown now")
    assert "Not run" in said
    assert said.endswith(ENDED.format(126))
    assert (await call("execute_bash", command="ls /tmp")) == ENDED.format(0)


async def test_what_is_typed_is_refused_too_and_at_once(open_tools: Tools, open_workspace: Open) -> None:
    call = await open_tools(workspace=await open_workspace(blocklist=Blocklist()))
    await call("execute_bash", command="bash --norc", timeout=0.3)
    started = asyncio.get_running_loop().time()
    said = await call("execute_bash", command="shutdown now", is_input="true")
    assert said.startswith("[Below is the output of the previous command.]\n")
    assert "Not run" in said
    assert asyncio.get_running_loop().time() - started < 20


async def test_a_memory_kill_is_told(open_tools: Tools, open_workspace: Open) -> None:
    call = await open_tools(workspace=await open_workspace(memory_mib=64))
    line = "sh -c 'x=$(head -c 300000000 /dev/zero | tr \"\\0\" x); echo ${#x}'; true"
    said = await call("execute_bash", command=line, timeout=60)
    assert "was killed: it held" in said
    assert "64 MiB is all there is]" in said


async def test_the_later_program_says_more_at_the_end_and_can_reset(open_tools: Tools) -> None:
    call = await open_tools("openhands_1_58", no_change_timeout_s=0.3)
    assert await call("terminal", command="python() { :; }; false") == (
        "\n[The command completed with exit code 1.]\n[Current working directory: /testbed]\n"
        "[Python interpreter: python]\n[Command finished with exit code 1]"
    )
    await call("terminal", command="cat")
    ended = await call("terminal", command="C-d", is_input=True)
    assert "[The command completed with exit code 0. CTRL+D was sent.]" in ended
    error = "[An error occurred during execution.]\n"
    assert (await call("terminal", command="x", is_input=True)).startswith(f"{error}No previous running command")
    reset: Any = await call("terminal", command="type python || echo gone", reset=True)
    assert reset.startswith("Terminal session has been reset.")
    assert "gone" in reset
    assert (await call("terminal", command="C-c", is_input=True, reset=True)).startswith(error)
