"""The program's own file editor, on one file of the sandbox at a time.

Run     by `driver.py`, under the program's interpreter.
Mirror  before each call the path stands here as it stands in the sandbox: a file with its bytes, a folder with the
        names of two levels, or nothing. Each has a place of its own, by the path as it was given, so that what is in a
        path leads nowhere on this machine. What the editor writes goes to the sandbox as it is written.
Theirs  all else, with the history for `undo_edit`; in its words the path is the sandbox's.
Differs what is neither a file nor a folder is not opened; a link stays one when its target is written.
Source  openhands-tools 1.58.0.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

_TIMEOUT_S = 60.0
_MIB = 1024 * 1024
_LOOK = """
if [ -d "$1" ]; then
    cd -- "$1" && command -v find >/dev/null || exit 9
    echo folder
    find -L . -mindepth 1 -maxdepth 2 -type d -print0 2>/dev/null
    printf '\\0'
    find -L . -mindepth 1 -maxdepth 2 ! -type d -print0 2>/dev/null
elif [ -f "$1" ]; then
    echo file
    if command -v wc >/dev/null; then wc -c < "$1"; fi
elif [ -e "$1" ]; then echo other
elif [ -d "${1%/*}/" ]; then echo free
else echo lost
fi
exit 0
"""


class Mirror:
    """Paths of the sandbox on this machine."""

    def __init__(self, bridge: Any, max_bytes: int) -> None:
        self._bridge = bridge
        self._max_bytes = max_bytes
        self._root = Path(tempfile.mkdtemp(prefix="mirror-"))
        self._paths: dict[Path, str] = {}

    def kind(self, path: str) -> str:
        return self._look(path)[0]

    def fetch(self, path: str, *, creates: bool) -> Path:
        """Where it stands. Raises OSError, and ValueError with the reason for what the editor can't take."""
        name = PurePosixPath(path).name
        folder = self._root / hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        place = folder / (name if name not in ("", "..") else "_")
        self._paths[place] = path
        shutil.rmtree(folder, ignore_errors=True)
        kind, rest = self._look(path)
        if kind == "other":
            raise ValueError(f"{path} is neither a file nor a folder.")
        if kind != "lost":
            folder.mkdir()
        if kind == "folder":
            _lay_out(place, rest)
        elif kind == "file":
            size = int(rest.strip() or 0)
            if size > self._max_bytes and not creates:
                limit = f"{size / _MIB:.1f}MB). Maximum allowed size is {self._max_bytes // _MIB}MB"
                raise ValueError(f"File validation failed for '{path}': File is too large ({limit}.")
            place.write_bytes(b"" if creates else self._bridge.read(path))
        return place

    def push(self, place: Path) -> None:
        self._bridge.write(self._paths[place], place.read_bytes())

    def told(self, text: str, place: Path) -> str:
        """With the sandbox's paths."""
        path = self._paths[place]
        return text.replace(str(place), path).replace(str(place.parent), str(PurePosixPath(path).parent))

    def _look(self, path: str) -> tuple[str, str]:
        done = self._bridge.exec(argv=["sh", "-c", _LOOK, "sh", path], timeout_s=_TIMEOUT_S)
        kind, _, rest = done["output"].partition("\n")
        if done["exit_code"] or kind not in ("folder", "file", "other", "free", "lost"):
            raise OSError(done["output"].strip() or f"can't look at {path}")
        return kind, rest


def _lay_out(place: Path, found: str) -> None:
    """A folder of the names in it."""
    place.mkdir()
    folders, _, files = found.partition("\0\0")
    for name in sorted(part for part in folders.split("\0") if part):
        (place / name).mkdir(exist_ok=True)
    for name in (part for part in files.split("\0") if part):
        (place / name).touch()


def editor_tool(bridge: Any, workdir: str) -> Any:
    """Their tool, with their executor over an editor of the sandbox's files."""
    from openhands.tools.file_editor import FileEditorTool as Theirs
    from openhands.tools.file_editor.exceptions import EditorToolParameterInvalidError, ToolError
    from openhands.tools.file_editor.impl import FileEditor, FileEditorExecutor

    class Editor(FileEditor):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(workspace_root=workdir)
            self._mirror = Mirror(bridge, self._max_file_size)

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
