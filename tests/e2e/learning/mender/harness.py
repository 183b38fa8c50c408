"""Two tools: a line of shell text in the repository, and the end of the work.

Pause   where the image has `PAUSE_FILE`, each command waits as many seconds as stand there, as a long build does.
"""

from paddock.harness.native import NativeHarness, Toolbox, ToolResult

PAUSE_FILE = "/etc/pause_s"
_TEXT = f'if [ -f {PAUSE_FILE} ]; then sleep "$(cat {PAUSE_FILE})"; fi; eval "$1"'


class MenderTools(Toolbox):
    """A method per tool of the profile."""

    async def t_shell(self, command: str) -> str:
        done = await self.workspace.exec(["sh", "-c", _TEXT, "sh", command], timeout_s=self.limits.tool_s)
        return f"exit code {done.exit_code}"

    async def t_finish(self) -> ToolResult:
        return ToolResult("", done=True, final="done")


class Mender(NativeHarness):
    """The harness."""

    TOOLBOX = MenderTools
