"""Paths of the sandbox on this machine, as a program's own editor takes them: one file or folder at a time.

Run     by drivers, under their programs' interpreters: standard library only.

Place   before each call a path stands here as it stands in the sandbox: a file with its bytes, a folder with the names
        of two levels, or nothing. Each has a place of its own, by the path as it was given, so that what is in a path
        leads nowhere on this machine.
Law     an editor may list a folder by a line of shell that its path is put into: here no folder has a name of its own.
Errors  OSError; ValueError with the reason for what the editor can't take.
Differs what is neither a file nor a folder is not opened; a link stays one when its target is written.
Source  openhands-aci 0.3.2, openhands-tools 1.58.0.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

_TIMEOUT_S = 60.0
_MIB = 1024 * 1024
_NAMELESS = "_"
_LOOK_SCRIPT = """
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
    """Copies of the sandbox's paths on this machine."""

    def __init__(self, bridge: Any, max_bytes: int) -> None:
        self._bridge = bridge
        self._max_bytes = max_bytes
        self._root = Path(tempfile.mkdtemp(prefix="mirror-"))
        self._paths: dict[Path, str] = {}

    def kind(self, path: str) -> str:
        return self._look(path)[0]

    def fetch(self, path: str, *, creates: bool = False) -> Path:
        """Copy a path of the sandbox and return the local path. `creates`: the file is to be written anew."""
        folder = self._root / hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        shutil.rmtree(folder, ignore_errors=True)
        kind, rest = self._look(path)
        name = PurePosixPath(path).name
        local = folder / (_NAMELESS if kind == "folder" or name in ("", "..") else name)
        self._paths[local] = path
        if kind == "other":
            raise ValueError(f"{path} is neither a file nor a folder.")
        if kind != "lost":
            folder.mkdir()
        if kind == "folder":
            _make_folder(local, rest)
        elif kind == "file":
            size = int(rest.strip() or 0)
            if size > self._max_bytes and not creates:
                limit = f"{size / _MIB:.1f}MB). Maximum allowed size is {self._max_bytes // _MIB}MB"
                raise ValueError(f"File validation failed for '{path}': File is too large ({limit}.")
            local.write_bytes(b"" if creates else self._bridge.read(path))
        return local

    def push(self, local: Path) -> None:
        self._bridge.write(self._paths[local], local.read_bytes())

    def in_sandbox_paths(self, text: str, local: Path) -> str:
        """Replace a local path in a text by the sandbox's path."""
        path = self._paths[local]
        return text.replace(str(local), path).replace(str(local.parent), str(PurePosixPath(path).parent))

    def _look(self, path: str) -> tuple[str, str]:
        result = self._bridge.exec(argv=["sh", "-c", _LOOK_SCRIPT, "sh", path], timeout_s=_TIMEOUT_S)
        kind, _, rest = result["output"].partition("\n")
        if result["exit_code"] or kind not in ("folder", "file", "other", "free", "lost"):
            raise OSError(result["output"].strip() or f"can't look at {path}")
        return kind, rest


def _make_folder(local: Path, listing: str) -> None:
    """Make a folder with empty entries of the names in a listing."""
    local.mkdir()
    folders, _, files = listing.partition("\0\0")
    for name in sorted(part for part in folders.split("\0") if part):
        (local / name).mkdir(exist_ok=True)
    for name in (part for part in files.split("\0") if part):
        (local / name).touch()
