"""A repository with a bug, its fix with tests, and commits that can be no task."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

MESSAGE = """Count the last mooring

A harbour with n berths had n - 1 of them free, because the loop over the berths ended one early. Ask for
`free()` of an empty harbour with three berths to see it.

Signed-off-by: Ada Quay <ada@example.org>
"""


class Repository:
    """A git repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"}
        who |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in who.items()}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", **who}
        done = subprocess.run(["git", *words], cwd=self.folder, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, message: str, files: dict[str, str | bytes | None]) -> str:
        """The id of a commit of these files; None removes one."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content)
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """HEAD is a fix with its tests."""
    made = Repository(_folder(tmp_path / "harbour"))
    made.commit("start", {"harbour/berths.py": "def free(n):\n    return n - 1\n", "tests/test_berths.py": "pass\n"})
    fixed = {
        "harbour/berths.py": "def free(n):\n    return n\n",
        "CHANGES.md": "fixed\n",
        "tests/test_berths.py": "from harbour.berths import free\n\n\ndef test_free():\n    assert free(3) == 3\n",
        "tests/data/berths.txt": "3\r\n",
        "tests/conftest.py": "",
    }
    made.commit(MESSAGE, dict(fixed))
    return made


@pytest.fixture
def new_repository(tmp_path: Path) -> Callable[[str], Repository]:
    return lambda name: Repository(_folder(tmp_path / name))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
