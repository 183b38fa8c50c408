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

    def fetch(self, path: str, *, creates: bool = False) -> Path:
        """Where it stands; `creates`: to be written anew, whatever is there."""
        folder = self._root / hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        shutil.rmtree(folder, ignore_errors=True)
        kind, rest = self._look(path)
        name = PurePosixPath(path).name
        place = folder / (_NAMELESS if kind == "folder" or name in ("", "..") else name)
        self._paths[place] = path
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
