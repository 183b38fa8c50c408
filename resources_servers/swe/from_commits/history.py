"""What one commit of a repository did, read with git and nothing of the repository run: no hook, filter or helper.

Source  a folder on this machine, read in place, or a URL, cloned bare into a temporary folder.
Fix     a commit against its first parent, so a merge is what it brought in. Renames are a removal and an addition.
Errors  ConfigError: no repository, no such commit, a first commit, git missing. Contents are bytes.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.errors import ConfigError

CLONE_TIMEOUT_S = 900.0
READ_TIMEOUT_S = 60.0
SUBMODULE = "160000"
_SAFE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C.UTF-8",
}
_DIFF = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"]


class CommitChange(NamedTuple):
    """One path that a commit touched."""

    path: str
    status: Literal["A", "M", "D", "T"]
    """Added, modified, deleted, of another type."""
    mode: str
    """As git has it after the commit; `000000` where it is gone."""


class FixCommit(NamedTuple):
    """A commit and what it changed."""

    commit: str
    base: str
    """Its first parent. Both are full ids."""
    message: str
    changes: list[CommitChange]


class GitHistory:
    """A repository's git folder."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.source = source

    def fix(self, name: str) -> FixCommit:
        """Read the commit that a user calls `name`; ConfigError where there is none, or it is the first."""
        commit = self._commit(name)
        base = self._git("rev-parse", "--verify", "--quiet", f"{commit}^1", wrong="").decode().strip()
        if not base:
            raise ConfigError(
                f"{name} is the first commit of {self.source}: there is no tree without it", kind="commit"
            )
        message = self._git("log", "-1", "--no-show-signature", "--format=%B", commit).decode(errors="replace").strip()
        return FixCommit(commit, base, message, list(self._changes(base, commit)))

    def patch(self, fix: FixCommit, paths: Sequence[str]) -> bytes:
        """Return a git patch (binary) of what the commit did to these paths."""
        words = ["diff", *_DIFF, "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/"]
        return self._git("--literal-pathspecs", *words, fix.base, fix.commit, "--", *paths)

    def content(self, fix: FixCommit, path: str) -> bytes:
        """Return a file as the commit left it."""
        return self._git("cat-file", "blob", f"{fix.commit}:{path}")

    def _commit(self, name: str) -> str:
        wrong = f"{self.source} has no commit {name!r}; give a commit id, a tag or a branch"
        words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
        return self._git(*words, wrong=wrong).decode().strip()

    def _changes(self, base: str, commit: str) -> Iterator[CommitChange]:
        """`:old-mode new-mode old-id new-id status NUL path NUL`, as often as there are paths."""
        raw = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", base, commit)
        fields = iter(raw.decode(errors="surrogateescape").split("\0"))
        for head in fields:
            if head:
                _, mode, _, _, status = head.split(" ")
                yield CommitChange(next(fields), status[0], mode)  # type: ignore[arg-type]

    def _git(self, *words: str, wrong: str | None = None) -> bytes:
        """Return a command's output. `wrong` is the error when it fails; empty: its output is then empty."""
        # From inside it: attributes of whatever folder we stand in are none of its.
        done = _run(["-C", str(self.folder), "--git-dir", str(self.folder), *words], READ_TIMEOUT_S)
        if done.returncode == 0 or wrong == "":
            return done.stdout
        raise ConfigError(wrong or f"git {words[0]} in {self.source}: {_output(done)}", kind="repository")


@contextmanager
def open_history(source: str) -> Iterator[GitHistory]:
    """Open the history of a folder or a URL; a clone is removed at the end."""
    path = Path(source).expanduser()
    if path.is_dir():
        done = _run(["-C", str(path), "rev-parse", "--absolute-git-dir"], READ_TIMEOUT_S)
        if done.returncode:
            raise ConfigError(f"{source} is no git repository: {_output(done)}", kind="repository")
        yield GitHistory(Path(done.stdout.decode().strip()), source)
        return
    with tempfile.TemporaryDirectory(prefix="paddock-history-") as folder:
        bare = Path(folder, "repository.git")
        done = _run(["clone", "--quiet", "--bare", "--", source, str(bare)], CLONE_TIMEOUT_S)
        if done.returncode:
            raise ConfigError(f"{source} is no folder and could not be cloned: {_output(done)}", kind="repository")
        yield GitHistory(bare, source)


def _run(words: list[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    if not shutil.which("git"):
        raise ConfigError("git is not installed: apt-get install git", kind="git_missing")
    settings = ["-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env = {**inherited, **_SAFE}
    try:
        return subprocess.run(
            ["git", *settings, *words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"git {words[0]}: no end in {timeout_s:.0f} s", kind="repository") from None


def _output(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
