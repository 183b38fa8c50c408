"""The program's own file editor, on one file of the sandbox at a time.

Run     by `driver.py`, under the program's interpreter.
Mirror  what it works on stands in `paddock.harness.outside.mirror`'s place; what it writes goes to the sandbox as it is
        written.
Theirs  all else, with the history for `undo_edit`; in its words the path is the sandbox's.
Source  openhands-tools 1.58.0.
"""

from pathlib import Path, PurePosixPath
from typing import Any


def editor_tool(mirror_of: Any, workdir: str) -> Any:
    """Their tool, with their executor over an editor of the sandbox's files. `mirror_of(max_bytes)`: the mirror."""
    from openhands.tools.file_editor import FileEditorTool as Theirs
    from openhands.tools.file_editor.exceptions import EditorToolParameterInvalidError, ToolError
    from openhands.tools.file_editor.impl import FileEditor, FileEditorExecutor

    class SandboxFileEditor(FileEditor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(workspace_root=workdir)
            self._mirror = mirror_of(self._max_file_size)

        def __call__(self, *, path: str, **given: Any) -> Any:
            path = str(Path(path))
            local = Path()
            try:
                if not path.startswith("/"):
                    raise EditorToolParameterInvalidError("path", path, self._path_hint(path))
                local = self._mirror.fetch(path, creates=given["command"] == "create")
                done = super().__call__(path=str(local), **given)
            except ToolError as error:
                raise ToolError(self._text(error.message, local)) from None
            except (OSError, ValueError) as error:
                raise ToolError(self._text(str(error), local)) from None
            content = [
                part.model_copy(update={"text": self._text(part.text, local)}) if hasattr(part, "text") else part
                for part in done.content
            ]
            return done.model_copy(update={"content": content, "path": path})

        def _path_hint(self, path: str) -> str:
            absolute = str(PurePosixPath(workdir) / path)
            exists = self._mirror.kind(absolute) not in ("free", "lost")
            return "The path should be an absolute path." + (f" Maybe you meant {absolute}?" if exists else "")

        def _text(self, text: str, local: Path) -> str:
            return self._mirror.in_sandbox_paths(text, local) if local.is_absolute() else text

        def _atomic_write(self, path: Path, file_text: str, encoding: str) -> None:
            super()._atomic_write(path, file_text, encoding)
            self._mirror.push(path)

    class EditorExecutor(FileEditorExecutor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.editor = SandboxFileEditor()
            self.allowed_edits_files = None

    class FileEditorTool(Theirs):  # type: ignore[misc]
        """`file_editor`."""

        @classmethod
        def create(cls, conv_state: Any) -> Any:
            here = conv_state.workspace.working_dir
            return [
                tool.model_copy(update={"description": tool.description.replace(here, workdir)}).set_executor(
                    EditorExecutor()
                )
                for tool in super().create(conv_state)
            ]

    return FileEditorTool
