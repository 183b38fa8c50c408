"""The inside of the sandbox: reads runs as JSON, answers what each did. Standard library only.

Shapes  in: a list of [tree, command, base]; out: a list of [output, exit status, {path: mode and content}].
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path("/mnt/repo")
GIT = Path("/mnt/git-template")
MTIME = 1_700_000_000
WORDS = ["alpha", "beta", "gamma needle", "delta", "needle two", "Needle Three", "epsilon", "x.y", "x-y", "zeta zoo"]


def numbered(count: int, *, newline: bool = True) -> str:
    text = "\n".join(f"{number} {WORDS[number % len(WORDS)]}" for number in range(1, count + 1))
    return text + ("\n" if newline else "")


def code(name: str) -> str:
    return f"import os\n\n\ndef {name}():\n    return 'needle'  # TODO\n"


TREES: dict[str, dict[str, str]] = {
    "plain": {
        "a.txt": numbered(30), "b.txt": numbered(7), "c.log": "needle\nneedle\nhay\n", "src/m.py": code("one"),
        "src/pkg/n.py": code("two"), "src/pkg/data.txt": numbered(3), "docs/read.md": "needle and TODO\n",
        "docs/old/o.md": "old\n", "old.tmp": "", "with space.txt": "needle spaced\n",
        "run.sh": "echo ran \"$@\"; pwd\n",
    },
    "crowded": {
        "a.txt": numbered(55, newline=False), "b.txt": "needle\n" * 12, "c.log": "", ".hidden": "needle\n",
        "src/m.py": code("three") * 3, "src/pkg/n.py": "TODO needle two\n" * 4, "src/pkg/data.txt": "needle TODO\n",
        "src/z.py": "nothing\n", "docs/read.md": "TODO\n" * 3, "docs/old/o.md": "needle\n", "old.tmp": "needle\n",
        "with space.txt": "two\nlines\n", "run.sh": "echo ran \"$@\" >&2; pwd; exit 3\n", "src/src/m.py": code("four"),
        "src/a.txt": "another\nneedle\n", "pkg/n.py": "TODO elsewhere\n", "aa.txt": "z\n",
    },
    "bare": {
        "a.txt": "no match\n", "b.txt": "\n\n", "c.log": "hay\nhay\n", "src/m.py": "", "src/pkg/n.py": "pass\n",
        "src/pkg/data.txt": "x\n", "docs/read.md": "none\n", "docs/old/o.md": "", "old.tmp": "x", "with space.txt": "",
        "run.sh": "exit 0\n", "zz/deep/er/m.py": "pass\n",
    },
}  # fmt: skip


def build(tree: str) -> None:
    shutil.rmtree(ROOT, ignore_errors=True)
    if tree == "git":
        shutil.copytree(GIT, ROOT, symlinks=True)
        return
    for name, text in TREES[tree].items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    for path in [*ROOT.rglob("*"), ROOT]:
        os.utime(path, (MTIME, MTIME))


def build_git() -> None:
    build("plain")
    for command in (
        "git init -q", "git config user.email t@example.org", "git config user.name t", "git add a.txt src docs",
        "git commit -qm one", "git add b.txt", "git commit -qm two", "echo more >> a.txt", "echo x >> src/m.py",
        "git add src/m.py",
    ):  # fmt: skip
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, capture_output=True)
    shutil.move(ROOT, GIT)


def files() -> dict[str, str]:
    found = {}
    for path in sorted(ROOT.rglob("*")):
        if ".git" in path.parts:
            continue
        content = path.read_text(errors="replace") if path.is_file() else ""
        found[str(path)] = f"{path.lstat().st_mode:o} {content}"
    if (ROOT / ".git").exists():
        for asked in (["git", "ls-files", "-s"], ["git", "log", "--format=%s"]):
            found[asked[1]] = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return found


def spelled(output: str, base: str, known: set[str]) -> str:
    """`output` with each word that is a path of the tree written in full."""

    def full(match: re.Match[str]) -> str:
        path = os.path.normpath(ROOT / base / match[0])
        return path if path in known else match[0]

    return re.sub(r"[^\s:'\"]+", full, output)


def run(tree: str, command: str, base: str) -> tuple[str, int, dict[str, str]]:
    build(tree)
    before = {str(path) for path in ROOT.rglob("*")}
    done = subprocess.run(
        ["/bin/bash", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=60, check=False,
    )  # fmt: skip
    after = files()
    output = done.stdout.decode(errors="replace")
    return spelled(output, base, before | set(after) | {str(ROOT)}), done.returncode, after


def main() -> None:
    build_git()
    json.dump([run(*each) for each in json.load(sys.stdin)], sys.stdout)


main()
