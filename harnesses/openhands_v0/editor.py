"""The program's own file editor, on one file of the sandbox at a time.

Run     by `runtime.py`, under the program's interpreter; never imported by us.
Mirror  what it works on stands in `paddock.harness.outside.mirror`'s place; what it writes goes to the sandbox as it
        is written.
Theirs  all else, with the history for `undo_edit`; in its words the path is the sandbox's.
Differs what is neither a file nor a folder is not opened, and what it would convert (PDF, Office, sound) is not
        converted: its converters would run on this machine, and ask others.
Source  openhands-aci 0.3.2.
"""

from pathlib import Path, PurePosixPath
from typing import Any

from openhands_aci.editor.editor import OHEditor
from openhands_aci.editor.exceptions import EditorToolParameterInvalidError, ToolError


class SandboxEditor(OHEditor):  # type: ignore[misc]
    def __init__(self, mirror_of: Any, workdir: str) -> None:
        """`mirror_of`: makes the mirror, for files up to so many bytes."""
        super().__init__(workspace_root=workdir)
        self._workdir = workdir
        self._mirror = mirror_of(self._max_file_size)

    def __call__(self, *, path: str, **given: Any) -> Any:
        path = str(Path(path))
        local = Path()
        try:
            if not path.startswith("/"):
                raise EditorToolParameterInvalidError("path", path, self._path_hint(path))
            local = self._mirror.fetch(path)
            done = super().__call__(path=str(local), **given)
        except ToolError as error:
            raise ToolError(self._text(error.message, local)) from None
        except (OSError, ValueError) as error:
            raise ToolError(self._text(str(error), local)) from None
        done.path = path
        done.output = done.output and self._text(done.output, local)
        done.error = done.error and self._text(done.error, local)
        return done

    def _path_hint(self, path: str) -> str:
        absolute = str(PurePosixPath(self._workdir) / path)
        exists = self._mirror.kind(absolute) not in ("free", "lost")
        message = "The path should be an absolute path, starting with `/`."
        return f"{message} Maybe you meant {absolute}?" if exists else message

    def _text(self, text: str, local: Path) -> str:
        return str(self._mirror.in_sandbox_paths(text, local)) if local.is_absolute() else text

    def write_file(self, path: Path, *given: Any, **named: Any) -> None:
        super().write_file(path, *given, **named)
        self._push(path)

    def insert(self, path: Path, *given: Any, **named: Any) -> Any:
        done = super().insert(path, *given, **named)
        self._push(path)
        return done

    def read_file_markdown(self, path: Path) -> str:
        raise ToolError(
            f"Error in converting file to Markdown: there is no converter. Please use Python code to read {path}"
        )

    def _push(self, path: Path) -> None:
        try:
            self._mirror.push(path)
        except (OSError, ValueError) as error:
            raise ToolError(f"Ran into {error} while trying to write to {path}") from None
