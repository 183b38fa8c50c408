"""Writes the README of every room with more than ten files: what it is, and what each of its files holds.

Usage   python scripts/rooms.py [--check]: with --check nothing is written, and a page that is not as the code says
        exits 1.
Source  the docstring of the room's `__init__.py`, and the first sentence of each module's. A README that somebody wrote
        (without `MARK`) is left as it is.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("src/", "agents/", "harnesses/", "lab/", "models_servers/", "resources_servers/", "training/")
MANY_FILES = 10
MARK = "<!-- python scripts/rooms.py -->"


def main(*words: str) -> int:
    stale = [page for page, text in pages() if not page.is_file() or page.read_text() != text]
    if "--check" in words:
        for page in stale:
            print(f"{page.relative_to(ROOT)} is not as the code says: python scripts/rooms.py")
        return int(bool(stale))
    for page, text in pages():
        page.write_text(text)
    print("rooms: ok")
    return 0


def pages() -> Iterator[tuple[Path, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    rooms: dict[Path, list[Path]] = defaultdict(list)
    for name in listed.stdout.split():
        file = ROOT / name
        if name.startswith(ROOMS) and file.is_file():
            rooms[file.parent].append(file)
    for room, files in rooms.items():
        page = room / "README.md"
        own = page.is_file() and MARK not in page.read_text()
        if len(files) > MANY_FILES and not own:
            yield page, _page(room, sorted(files))


def _page(room: Path, files: list[Path]) -> str:
    name = str(room.relative_to(ROOT)).removeprefix("src/")
    lines = [f"# {name}", "", MARK, ""]
    if about := _docstring(room / "__init__.py"):
        lines += [about, ""]
    lines += ["| file | holds |", "|---|---|"]
    lines += [f"| `{file.name}` | {_first_sentence(_docstring(file))} |" for file in files if file.stem != "__init__"]
    folders = sorted(one.parent for one in room.glob("*/__init__.py"))
    lines += [f"| `{one.name}/` | {_first_sentence(_docstring(one / '__init__.py'))} |" for one in folders]
    return "\n".join(lines) + "\n"


def _docstring(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text())) or "") if file.is_file() else ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph)[0]
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
