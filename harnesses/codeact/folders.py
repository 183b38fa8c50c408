"""What the file editor shows of a folder: two levels, links followed, hidden entries counted and left out.

Order   by the names on the way; a folder has a slash at its end and stands before what it holds.
Source  one `find` in the workspace. Errors  `EditorError` where there is none.
"""

from paddock.harness import Workspace
from paddock.harnesses.codeact.errors import EditorError
from paddock.harnesses.codeact.texts import FOLDER_NOTICE, clip

_DEPTH = 2
_TIMEOUT_S = 60.0
_FIND = """
cd -- "$1" 2>/dev/null && command -v find >/dev/null || exit 9
find -L . -maxdepth 2 -type d -print0 2>/dev/null
printf '\\0'
find -L . -maxdepth 2 ! -type d -print0 2>/dev/null
exit 0
"""


async def listing(workspace: Workspace, path: str, *, max_chars: int) -> str:
    """`path`: absolute, without a slash at its end."""
    done = await workspace.exec(["sh", "-c", _FIND, "sh", path], timeout_s=_TIMEOUT_S)
    if done.exit_code:
        raise EditorError(f"Ran into {done.text().strip() or 'an error'} while trying to list {path}")
    folders, _, files = done.output.decode(errors="replace").partition("\0\0")
    entries = {_parts(name): "/" for name in folders.split("\0")} | {_parts(name): "" for name in files.split("\0")}
    hidden = sum(len(parts) == 1 and parts[0].startswith(".") for parts in entries)
    shown = sorted(parts for parts in entries if parts and not any(part.startswith(".") for part in parts))
    root = path.rstrip("/")
    lines = [f"{root}/", *("/".join((root, *parts)) + entries[parts] for parts in shown)]
    text = f"Here's the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:\n"
    text += "\n".join(lines)
    if hidden:
        text += (
            f"\n\n{hidden} hidden files/directories in this directory are excluded. "
            f"You can use 'ls -la {path}' to see them."
        )
    return clip(text, max_chars, FOLDER_NOTICE)


def _parts(name: str) -> tuple[str, ...]:
    """Below the folder; of the folder itself, and of no name, nothing."""
    return tuple(part for part in name.split("/")[1:] if part)
