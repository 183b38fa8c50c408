"""A whole harness that lives outside the package: one class, a toolbox, `profiles/` and `prompts/` beside it.

harness: my_harness:MyHarness        # in an agent's block, with this folder on PYTHONPATH or as working directory
paddock check harness:my_harness:MyHarness
"""

import shlex

from paddock.harness.native import NativeHarness, Toolbox, ToolResult, TurnWriter, changes
from paddock.types import Fix, JsonObject

__all__ = ["MyHarness"]


class MyTools(Toolbox):
    """A method per tool of the profile."""

    async def t_bash(self, command: str) -> str:
        done = await self.workspace.exec(["bash", "-c", command], timeout_s=self.limits.tool_s)
        text, most = done.text(), self.option("max_output_chars")
        return f"exit code {done.exit_code}\n{text if len(text) <= most else text[:most] + ' [cut]'}"

    async def t_write_file(self, path: str, content: str) -> str:
        try:
            await self.workspace.write(path, content.encode())
        except OSError as error:
            return f"{path}: {error}"
        return f"{path}: written"

    async def t_replace(self, path: str, old: str, new: str) -> str:
        try:
            text = (await self.workspace.read(path)).decode()
        except (OSError, UnicodeDecodeError) as error:
            return f"{path}: {error}"
        if text.count(old) != 1:
            return f"{path}: `old` stands there {text.count(old)} times, not once"
        return await self.t_write_file(path, text.replace(old, new))

    async def t_finish(self, message: str) -> ToolResult:
        return ToolResult("", done=True, final=message)


class MyHarness(NativeHarness):
    TOOLBOX = MyTools

    def oracle(self, fix: Fix) -> list[list[JsonObject]]:
        """For `paddock eval --oracle`: the known fix, made with the tools above."""
        player = TurnWriter()
        player.call("bash", command="ls")
        for change in changes(fix):
            if change.kind == "delete":
                player.call("bash", command=f"rm {shlex.quote(change.path)}")
            elif change.kind == "add":
                player.call("write_file", path=change.path, content=change.text)
            for one in change.replacements:
                player.call("replace", path=change.path, old=one.old, new=one.new)
            if change.to is not None:
                player.call("bash", command=f"mv {shlex.quote(change.path)} {shlex.quote(change.to)}")
            if change.executable is not None:
                mode = "+x" if change.executable else "-x"
                player.call("bash", command=f"chmod {mode} {shlex.quote(change.to or change.path)}")
        player.call("bash", command=fix.test_command)
        player.call("finish", message="It is fixed.")
        return player.turns
