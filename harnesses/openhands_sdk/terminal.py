"""The terminal below the program's own session logic: a shell of the sandbox that looks like its screen.

Run     by `driver.py`, under the program's interpreter.
Theirs  waiting, typing, what is refused and every word: `TerminalSession` and `TerminalExecutor`, unchanged. They read
        a screen, on which a prompt with metadata stands after each command that has ended; so this writes one.
Screen  rendered as a reader sees it, and no longer than theirs (`LINES`). A new prompt costs a second line in the
        shell: which Python it would start.
Limit   a command that takes longer than one tool call may (`tool_s`), over however many calls, is stopped.
Ended   a shell that has ended says so; the next command opens another.
Source  openhands-tools 1.58.0.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

LINES = 10_000
WAIT_S = 0.1
"""For more output, whenever the screen is read."""
_KEYS = {
    "ENTER": "\n",
    "TAB": "\t",
    "BS": "\x7f",
    "ESC": "\x1b",
    "UP": "\x1b[A",
    "DOWN": "\x1b[B",
    "RIGHT": "\x1b[C",
    "LEFT": "\x1b[D",
    "HOME": "\x1b[H",
    "END": "\x1b[F",
    "PGUP": "\x1b[5~",
    "PGDN": "\x1b[6~",
}
_GONE = "[The shell itself has ended. The next command starts a new one.]"
_OVER = "[time limit: the command was stopped]"
_INTERRUPTED = 130
_KILLED = 137


class SandboxTerminal:
    """Their `TerminalInterface`."""

    username = None

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
        self.work_dir = workdir
        self.initialized = False
        self.closed = False
        self._bridge = bridge
        self._tool_s = tool_s
        self._render = render
        self._marks = marks
        self._shell: Any = None
        self._started_s = 0.0
        """When the command that runs was started, on the monotonic clock."""
        self._workdir = workdir
        self._runs = False
        self._code = 0
        self._prompt = ""
        self._screen = ""
        """All before the output of the command that runs."""
        self._raw = ""

    def initialize(self) -> None:
        self._at_prompt(self.work_dir, "")
        self.initialized = True

    def close(self) -> None:
        shell, self._shell = self._shell, None
        self.closed = True
        if shell is not None:
            shell.close()

    def send_keys(self, text: str, enter: bool = True) -> None:
        key = _key(text)
        if self._runs:
            if key == "\x03":
                self._take(self._shell.interrupt())
            else:
                self._take(self._shell.type(key or (f"{text}\n" if enter else text)))
        elif key is not None:
            self._code = _INTERRUPTED if key == "\x03" else self._code
            self._screen += "^C\n" if key == "\x03" else ""
            self._at_prompt(self._workdir, "")
        else:
            if self._shell is None:
                self._shell = self._bridge.shell()
            done = self._shell.run(text, wait_s=WAIT_S)
            self._started_s = time.monotonic()
            self._screen += f"{text}\n"
            self._take(done)

    def read_screen(self) -> str:
        if self._runs:
            self._take(self._shell.poll(wait_s=WAIT_S))
        if self._runs and self._tool_s is not None and time.monotonic() - self._started_s >= self._tool_s:
            self._stop()
        return "\n".join((self._screen + self._render(self._raw)).split("\n")[-LINES:])

    def clear_screen(self) -> None:
        self._screen, self._raw = self._prompt, ""

    def interrupt(self) -> bool:
        if self._runs:
            self._take(self._shell.interrupt())
        return True

    def is_running(self) -> bool:
        return self._runs

    def is_powershell(self) -> bool:
        return False

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


def terminal_tool(bridge: Any, workdir: str, tool_s: float | None, render: Callable[[str], str]) -> Any:
    """Their tool, with their executor over a terminal in the sandbox."""
    from openhands.tools.terminal import TerminalTool as Theirs
    from openhands.tools.terminal.constants import CMD_OUTPUT_PS1_BEGIN, CMD_OUTPUT_PS1_END
    from openhands.tools.terminal.definition import TerminalObservation
    from openhands.tools.terminal.impl import TerminalExecutor
    from openhands.tools.terminal.terminal import terminal_session

    # A line is not typed here: its end is known without a second one, and nothing on the way eats a backslash.
    terminal_session.needs_heredoc_completion_boundary = lambda _commands: False
    terminal_session.escape_bash_special_chars = lambda command: command

    def session() -> Any:
        marks = (CMD_OUTPUT_PS1_BEGIN, CMD_OUTPUT_PS1_END)
        opened = terminal_session.TerminalSession(SandboxTerminal(bridge, workdir, tool_s, render=render, marks=marks))
        opened.initialize()
        return opened

    class SandboxTerminalExecutor(TerminalExecutor):  # type: ignore[misc]
        """One session, without a search for tmux."""

        def __init__(self) -> None:
            self.shell_path = self.full_output_save_dir = self._username = self._terminal_type = self._pool = None
            self._no_change_timeout_seconds = None
            self._working_dir, self._max_panes = workdir, 1
            self._env: dict[str, str] = {}
            self._sessions: dict[int, Any] = {}
            self._sessions_lock = self._pool_recovery_lock = threading.Lock()
            self._session = session()

        def _reset_single_session(self) -> Any:
            self._session.close()
            self._session = session()
            return TerminalObservation.from_text(text=self._RESET_TEXT, command="[RESET]", exit_code=0)

    class TerminalTool(Theirs):  # type: ignore[misc]
        """`terminal`."""

        @classmethod
        def create(cls, conv_state: Any, **_params: Any) -> Any:
            return super().create(conv_state, executor=SandboxTerminalExecutor())

    return TerminalTool


def _key(text: str) -> str | None:
    """What a key types; None: it is a text."""
    upper = text.strip().upper()
    for prefix in ("C-", "CTRL-", "CTRL+"):
        letter = upper.removeprefix(prefix)
        if letter != upper and len(letter) == 1 and "A" <= letter <= "Z":
            return chr(ord(letter) & 31)
    return _KEYS.get(upper)
