"""Claims about the screen that the program's session logic reads: without the program, over a scripted shell."""

import json
import re
from typing import Any

from paddock.harness.screen import render_screen
from paddock.harnesses.openhands_v0.pane import LINES, SandboxPane
from paddock.types import JsonObject

MARKS = ("\n<<\n", "\n>>")


def output(output: str = "", *, code: int | None = 0, closed: bool = False) -> JsonObject:
    return {"output": output, "exit_code": code, "workdir": "/testbed", "closed": closed}


class PaneShell:
    """Answers in order; what it was asked is in `acts`. It knows which Python it would start."""

    def __init__(self, *answers: JsonObject) -> None:
        self.acts: list[tuple[Any, ...]] = []
        self._answers = list(answers)

    def shell(self) -> "PaneShell":
        self.acts.append(("open",))
        return self

    def run(self, line: str, *, timeout_s: float | None = None, wait_s: float | None = None) -> JsonObject:
        return output("/usr/bin/python\n") if line.startswith("(command -v python") else self._did("run", line)

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


def pane(*answers: JsonObject, tool_s: float = 600.0) -> tuple[SandboxPane, PaneShell]:
    shell = PaneShell(*answers)
    return SandboxPane(shell, "/testbed", tool_s, render=render_screen, marks=MARKS), shell


def metadata(screen: str) -> list[JsonObject]:
    """What its prompts say, in order."""
    return [json.loads(found) for found in re.findall(r"^<<\n(.*?)\n>>$", screen, re.MULTILINE)]


def test_a_prompt_stands_after_each_command_that_has_ended() -> None:
    made, shell = pane(output("one\n", code=3))
    made.send_keys("false")
    screen = made.content()
    assert [prompt["exit_code"] for prompt in metadata(screen)] == [0, 3]
    assert metadata(screen)[-1]["py_interpreter_path"] == "/usr/bin/python"
    assert "false\none" in screen
    made.clear()
    assert metadata(made.content()) == metadata(screen)[-1:]
    assert shell.acts == [("open",), ("run", "false")]


def test_keys_go_to_what_runs() -> None:
    made, shell = pane(output(code=None), output(code=None), output(code=None), output("bye\n", code=130))
    made.send_keys("cat")
    made.send_keys("hello")
    made.send_keys("C-d", enter=False)
    made.send_keys("C-c", enter=False)
    assert shell.acts[2:] == [("type", "hello\n"), ("type", "\x04"), ("interrupt",)]
    assert metadata(made.content())[-1]["exit_code"] == 130


def test_a_command_beyond_its_time_is_stopped_with_its_shell() -> None:
    made, shell = pane(output(code=None), output("a\n", code=None), output(code=None), output("new\n"), tool_s=0.0)
    made.send_keys("sleep 9")
    screen = made.content()
    assert "time limit" in screen
    assert "shell itself has ended" in screen
    assert metadata(screen)[-1]["exit_code"] == 137
    made.send_keys("echo new")
    assert shell.acts[1:] == [("run", "sleep 9"), ("poll",), ("interrupt",), ("close",), ("open",), ("run", "echo new")]


def test_a_screen_has_only_so_many_lines() -> None:
    made, _ = pane(output("x\n" * (2 * LINES)))
    made.send_keys("yes")
    assert made.content().count("\n") == LINES - 1
