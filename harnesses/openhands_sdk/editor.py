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

    class Editor(FileEditor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(workspace_root=workdir)
            self._mirror = mirror_of(self._max_file_size)

        def __call__(self, *, path: str, **given: Any) -> Any:
            path = str(Path(path))
            place = Path()
            try:
                if not path.startswith("/"):
                    raise EditorToolParameterInvalidError("path", path, self._meant(path))
                place = self._mirror.fetch(path, creates=given["command"] == "create")
                done = super().__call__(path=str(place), **given)
            except ToolError as error:
                raise ToolError(self._told(error.message, place)) from None
            except (OSError, ValueError) as error:
                raise ToolError(self._told(str(error), place)) from None
            content = [
                part.model_copy(update={"text": self._told(part.text, place)}) if hasattr(part, "text") else part
                for part in done.content
            ]
            return done.model_copy(update={"content": content, "path": path})

        def _meant(self, path: str) -> str:
            meant = str(PurePosixPath(workdir) / path)
            there = self._mirror.kind(meant) not in ("free", "lost")
            return "The path should be an absolute path." + (f" Maybe you meant {meant}?" if there else "")

        def _told(self, text: str, place: Path) -> str:
            return self._mirror.told(text, place) if place.is_absolute() else text

        def _atomic_write(self, path: Path, file_text: str, encoding: str) -> None:
            super()._atomic_write(path, file_text, encoding)
            self._mirror.push(path)

    class Executor(FileEditorExecutor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.editor = Editor()
            self.allowed_edits_files = None

    class FileEditorTool(Theirs):  # type: ignore[misc]
        """`file_editor`."""

        @classmethod
        def create(cls, conv_state: Any) -> Any:
            here = conv_state.workspace.working_dir
            return [
                tool.model_copy(update={"description": tool.description.replace(here, workdir)}).set_executor(
                    Executor()
                )
                for tool in super().create(conv_state)
            ]

    return FileEditorTool
