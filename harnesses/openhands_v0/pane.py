"""The tmux pane below the program's own bash session: a shell of the sandbox that looks like one.

Run     by `runtime.py`, under the program's interpreter.
Theirs  waiting, typing, what is refused and every word: `BashSession`, unchanged. It reads a screen, on which a prompt
        with metadata stands after each command that has ended; so this writes one.
Screen  rendered as a reader sees it, and no longer than theirs (`LINES`). A new prompt costs a second line in the
        shell: which Python it would start.
Limit   a command that takes longer than one tool call may (`tool_s`), over however many calls, is stopped.
Ended   a shell that has ended says so; the next command opens another.
Source  openhands-ai 0.62.0.
"""

import json
import time
from collections.abc import Callable
from typing import Any

LINES = 10_000
WAIT_S = 0.1
"""For more output, whenever the screen is read."""
_GONE = "[The shell itself has ended. The next command starts a new one.]"
_OVER = "[time limit: the command was stopped]"
_INTERRUPT = "\x03"
_INTERRUPTED = 130
_KILLED = 137


class SandboxPane:
    """What their session asks of a pane."""

    def __init__(
        self,
        bridge: Any,
        workdir: str,
        tool_s: float | None,
        *,
        render: Callable[[str], str],
        marks: tuple[str, str],
    ) -> None:
        """`marks`: before and after the metadata of a prompt."""
        self._bridge = bridge
        self._tool_s = tool_s
        self._render = render
        self._marks = marks
        self._shell: Any = None
        self._started_s = 0.0
        """When the command that runs was started, on the monotonic clock."""
        self._runs = False
        self._code = 0
        self._prompt = ""
        self._screen = ""
        """All before the output of the command that runs."""
        self._raw = ""
        self._at_prompt(workdir, "")

    def send_keys(self, text: str, enter: bool = True) -> None:
        key = _key(text)
        if self._runs:
            if key == _INTERRUPT:
                self._take(self._shell.interrupt())
            else:
                self._take(self._shell.type(key or (f"{text}\n" if enter else text)))
        elif key is not None:
            self._code = _INTERRUPTED if key == _INTERRUPT else self._code
            self._screen += "^C\n" if key == _INTERRUPT else ""
            self._at_prompt(self._workdir, "")
        else:
            if self._shell is None:
                self._shell = self._bridge.shell()
            done = self._shell.run(text, wait_s=WAIT_S)
            self._started_s = time.monotonic()
            self._screen += f"{text}\n"
            self._take(done)

    def content(self) -> str:
        if self._runs:
            self._take(self._shell.poll(wait_s=WAIT_S))
        if self._runs and self._tool_s is not None and time.monotonic() - self._started_s >= self._tool_s:
            self._stop()
        return "\n".join((self._screen + self._render(self._raw)).split("\n")[-LINES:])

    def clear(self) -> None:
        """Only the prompt is left."""
        self._screen, self._raw = self._prompt, ""

    def _stop(self) -> None:
        """Its time is over: ^C, and where that is not heard the end of its shell and all below."""
        done = self._shell.interrupt()
        if done["exit_code"] is None:
            self._shell.close()
            self._shell = None
            done = {**done, "exit_code": _KILLED, "closed": True}
        self._take({**done, "output": f"{done['output']}\n{_OVER}"})

    def _take(self, done: dict[str, Any]) -> None:
        """What the shell has said."""
        self._raw += done["output"]
        self._runs = done["exit_code"] is None
        if self._runs:
            return
        self._code = done["exit_code"]
        shown = self._render(self._raw)
        if done["closed"]:
            shown += f"\n{_GONE}"
        self._screen, self._raw = self._screen + shown, ""
        self._at_prompt(done["workdir"], "" if done["closed"] else self._python())

    def _python(self) -> str:
        """Which one the shell would start. It leaves `$?` as it was."""
        output = self._shell.run(f"(command -v python; exit {self._code})", timeout_s=self._tool_s)["output"]
        return next((line for line in self._render(output).split("\n") if not line.startswith("+")), "")

    def _at_prompt(self, workdir: str, python: str) -> None:
        self._workdir = workdir
        metadata = {"exit_code": self._code, "working_dir": workdir, "py_interpreter_path": python}
        self._prompt = f"{self._marks[0]}{json.dumps(metadata)}{self._marks[1]}\n"
        self._screen += self._prompt


def _key(text: str) -> str | None:
    """What `C-x` types; None: it is a text."""
    word = text.strip()
    letter = word[2:].upper()
    if word.startswith("C-") and len(letter) == 1 and "A" <= letter <= "Z":
        return chr(ord(letter) & 31)
    return None
