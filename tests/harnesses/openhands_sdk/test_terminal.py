"""Claims about the screen that the program's terminal logic reads: without the program, over a scripted shell."""

import json
import re
from typing import Any

import pytest

from paddock.harness.screen import render_screen
from paddock.harnesses.openhands_sdk.terminal import LINES, SandboxTerminal
from paddock.types import JsonObject

MARKS = ("\n<<\n", "\n>>")
Acts = list[tuple[Any, ...]]


def output(output: str = "", *, code: int | None = 0, workdir: str = "/testbed", closed: bool = False) -> JsonObject:
    return {"output": output, "exit_code": code, "workdir": workdir, "closed": closed}


class TerminalShell:
    """Answers in order; what it was asked is in `acts`. It knows which Python it would start."""

    def __init__(self, *answers: JsonObject) -> None:
        self.acts: Acts = []
        self._answers = list(answers)

    def shell(self) -> "TerminalShell":
        self.acts.append(("open",))
        return self

    def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> JsonObject:
        if line.startswith("(command -v python"):
            return output("/usr/bin/python\n")
        return self._did("run", line)

    def poll(self, *, wait_s: float = 0.0) -> JsonObject:
        return self._did("poll")

    def type(self, text: str, *, wait_s: float = 0.0) -> JsonObject:
        return self._did("type", text)

    def interrupt(self) -> JsonObject:
        return self._did("interrupt")

    def close(self) -> None:
        self.acts.append(("close",))

    def _did(self, *act: Any) -> JsonObject:
        self.acts.append(act)
        return self._answers.pop(0)


def terminal(*answers: JsonObject, tool_s: float = 600.0) -> tuple[SandboxTerminal, TerminalShell]:
    shell = TerminalShell(*answers)
    made = SandboxTerminal(shell, "/testbed", tool_s, render=render_screen, marks=MARKS)
    made.initialize()
    return made, shell


def prompts(screen: str) -> list[JsonObject]:
    return [json.loads(metadata) for metadata in re.findall(r"^<<\n(.*?)\n>>$", screen, re.DOTALL | re.MULTILINE)]


def test_a_prompt_stands_at_the_start_and_after_each_command() -> None:
    made, shell = terminal(output("one\r\n\x1b[31mtwo\x1b[0m\n", code=3, workdir="/tmp"))
    assert [each["exit_code"] for each in prompts(made.read_screen())] == [0]
    made.send_keys("do it")
    screen = made.read_screen()
    assert re.split(r"\n<<\n.*?\n>>\n", screen) == ["", "do it\none\ntwo", ""]
    assert prompts(screen)[-1] == {"exit_code": 3, "working_dir": "/tmp", "py_interpreter_path": "/usr/bin/python"}
    assert shell.acts == [("open",), ("run", "do it")]
    made.clear_screen()
    assert [each["exit_code"] for each in prompts(made.read_screen())] == [3]


def test_a_command_that_goes_on_is_read_as_it_writes_and_typed_at() -> None:
    made, shell = terminal(
        output("a", code=None),
        output("b\n", code=None),
        output("c\n", code=None),
        output("d\n", code=None),
        output("e\n"),
    )
    made.send_keys("slow")
    assert made.is_running()
    assert made.read_screen().endswith("slow\nab")
    made.send_keys("yes")
    made.send_keys("C-d", enter=False)
    assert len(prompts(made.read_screen())) == 2
    assert not made.is_running()
    assert [act for act in shell.acts if act[0] == "type"] == [("type", "yes\n"), ("type", "\x04")]


def test_an_interrupt_is_the_shells_own() -> None:
    made, shell = terminal(output(code=None), output("^C", code=130))
    made.send_keys("sleep 100")
    made.send_keys("C-c", enter=False)
    assert prompts(made.read_screen())[-1]["exit_code"] == 130
    assert shell.acts[-1] == ("interrupt",)


@pytest.mark.parametrize(("hears", "code"), [(True, 130), (False, 137)])
def test_a_command_whose_time_is_over_is_stopped_at_the_next_look(hears: bool, code: int) -> None:
    stopped = output("^C\n", code=130 if hears else None)
    made, shell = terminal(output("begun\n", code=None), output(code=None), stopped, tool_s=0.0)
    made.send_keys("sleep 100")
    screen = made.read_screen()
    assert "begun\n^C\n\n[time limit" in screen
    assert prompts(screen)[-1]["exit_code"] == code
    assert (("close",) in shell.acts) == (not hears)


@pytest.mark.parametrize(("key", "code"), [("C-c", 130), ("CTRL+C", 130), ("C-d", 0), ("UP", 0), ("C-z", 0)])
def test_a_key_at_the_prompt_runs_nothing_and_ends_no_shell(key: str, code: int) -> None:
    made, shell = terminal()
    made.send_keys(key, enter=False)
    assert [each["exit_code"] for each in prompts(made.read_screen())] == [0, code]
    assert shell.acts == []


def test_a_shell_that_has_ended_says_so() -> None:
    made, _ = terminal(output("bye\n", code=1, closed=True))
    made.send_keys("exit 1")
    screen = made.read_screen()
    assert "bye\n[The shell itself has ended." in screen
    assert prompts(screen)[-1] == {"exit_code": 1, "working_dir": "/testbed", "py_interpreter_path": ""}


def test_a_long_output_loses_its_start_as_a_real_screen_does() -> None:
    made, _ = terminal(output("".join(f"{number}\n" for number in range(2 * LINES))))
    made.send_keys("many")
    screen = made.read_screen()
    assert screen.count("\n") < LINES
    assert len(prompts(screen)) == 1
    assert f"\n{2 * LINES - 1}\n" in screen


def test_a_closed_terminal_closes_its_shell_once() -> None:
    made, shell = terminal(output())
    made.send_keys("true")
    made.close()
    made.close()
    assert shell.acts.count(("close",)) == 1
