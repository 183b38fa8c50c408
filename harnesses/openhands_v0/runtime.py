"""The program's runtime, bound to the sandbox: what it runs and edits happens there.

Run     by `driver.py`, under the program's interpreter; never imported by us.
Theirs  the bash session, the editor and the words of both, as its own action server has them.
Lacks   a browser, Jupyter and MCP: an agent is not told of them.
Unread  what of an action its code could not read: the policy's, not the sandbox's.
Source  openhands-ai 0.62.0.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openhands.events.event import FileEditSource, FileReadSource
from openhands.events.observation import ErrorObservation, FileEditObservation, FileReadObservation, Observation
from openhands.runtime.base import Runtime
from openhands_aci.editor.exceptions import ToolError
from openhands_aci.utils.diff import get_diff

UNREADABLE = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
Change = tuple[str | None, str | None]


class SandboxRuntime(Runtime):  # type: ignore[misc]
    def __init__(self, workdir: str, session: Any, editor: Any, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.unread: str | None = None
        self._workdir = workdir
        self._session = session
        self._editor = editor
        self._runtime_initialized = True

    @property
    def workspace_root(self) -> Path:
        return Path(self._workdir)

    async def _export_latest_git_provider_tokens(self, event: Any) -> None:
        # The first that looks into a command.
        with self._reading():
            await super()._export_latest_git_provider_tokens(event)

    def run_action(self, action: Any) -> Observation:
        with self._reading():
            return super().run_action(action)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            self.unread = f"{type(error).__name__}: {error}"
            raise

    def run(self, action: Any) -> Observation:
        try:
            return self._session.execute(action)
        except (*UNREADABLE, OSError) as error:
            return ErrorObservation(str(error))

    def read(self, action: Any) -> Observation:
        output, _ = self._edited(command="view", path=action.path, view_range=action.view_range)
        return FileReadObservation(content=output, path=action.path, impl_source=FileReadSource.OH_ACI)

    def edit(self, action: Any) -> Observation:
        output, (old, new) = self._edited(
            command=action.command,
            path=action.path,
            file_text=action.file_text,
            old_str=action.old_str,
            new_str=action.new_str,
            insert_line=action.insert_line,
        )
        return FileEditObservation(
            content=output,
            path=action.path,
            old_content=action.old_str,
            new_content=action.new_str,
            impl_source=FileEditSource.OH_ACI,
            diff=get_diff(old_contents=old or "", new_contents=new or "", filepath=action.path),
        )

    def _edited(self, **given: Any) -> tuple[str, Change]:
        """What the agent is told, and the file before and after."""
        line = given.get("insert_line")
        if isinstance(line, str):
            try:
                given["insert_line"] = int(line)
            except ValueError:
                return f"ERROR:\nInvalid insert_line value: '{line}'. Expected an integer.", (None, None)
        try:
            done = self._editor(**given)
        except ToolError as error:
            return f"ERROR:\n{error.message}", (None, None)
        except TypeError as error:
            return f"ERROR:\n{error}", (None, None)
        if done.error:
            return f"ERROR:\n{done.error}", (None, None)
        return done.output or "", (done.old_content, done.new_content)

    def _lacking(self, action: Any) -> Observation:
        return ErrorObservation(f"Action {action.action} is not supported in the current runtime.")

    run_ipython = write = browse = browse_interactive = _lacking

    async def call_tool_mcp(self, action: Any) -> Observation:
        return self._lacking(action)

    async def connect(self) -> None:
        return

    def get_mcp_config(self, extra_stdio_servers: Any = None) -> Any:
        return self.config.mcp

    def copy_to(self, host_src: str, sandbox_dest: str, recursive: bool = False) -> None:
        raise NotImplementedError

    def copy_from(self, path: str) -> Path:
        raise NotImplementedError

    def list_files(self, path: str | None = None) -> list[str]:
        raise NotImplementedError
