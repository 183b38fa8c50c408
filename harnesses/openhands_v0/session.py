"""The program's own bash session, without tmux: over a pane that is a shell of the sandbox.

Run     by `runtime.py`, under the program's interpreter; never imported by us.
Theirs  all but the pane (`pane.py`). It waits by itself when it is read.
Source  openhands-ai 0.62.0.
"""

from typing import Any

from openhands.events.observation.commands import CMD_OUTPUT_PS1_BEGIN, CMD_OUTPUT_PS1_END
from openhands.runtime.utils import bash

MARKS = (CMD_OUTPUT_PS1_BEGIN, CMD_OUTPUT_PS1_END)
NO_CHANGE_S = 10
"""As its own action server has it."""

# A line is not typed here: nothing on the way eats a backslash.
bash.escape_bash_special_chars = lambda command: command


class SandboxSession(bash.BashSession):  # type: ignore[misc]
    POLL_INTERVAL = 0

    def __init__(self, workdir: str, pane: Any) -> None:
        self._closed = True
        """There is no tmux to end; the other side closes the shell."""
        super().__init__(workdir, no_change_timeout_seconds=NO_CHANGE_S)
        self.pane = pane
        self.prev_status = None
        self.prev_output = ""
        self._cwd = workdir
        self._initialized = True

    def _get_pane_content(self) -> str:
        return str(self.pane.content())

    def _clear_screen(self) -> None:
        self.pane.clear()
