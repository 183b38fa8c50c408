"""A private, empty git repository of the host, to make patches and judge ignore rules with. Deleted at the block's end.

Clean   no system, user or repository configuration, attributes, hooks or ignore rules of anybody reach it: the
        environment is written from scratch, HOME is empty, and nothing of a sandbox is ever its work tree.
Data    goes in by pipes and files of ours, so that no path of a sandbox is ever opened by git.
Errors  SandboxError, kind `git`, with git's last words; one that outlives its time limit is killed.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paddock.sandbox.failures import SandboxError

_TIMEOUT_S = 300.0
_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfilemode = true\n"
    "\tbigFileThreshold = 512k\n\tcompression = 1\n"
)
"""Files over half a MiB are compared as binary: line by line, hostile ones can take git minutes."""


class PrivateRepository:
    """Git over a folder of our own."""

    def __init__(self, folder: Path) -> None:
        self._home = folder / "home"
        self._work = folder / "work"
        self.git_dir = folder / "git"
        for path in (self._home, self._work, *(self.git_dir / name for name in ("objects", "refs", "info"))):
            path.mkdir(parents=True)
        (self.git_dir / "HEAD").write_text("ref: refs/heads/unborn\n")
        (self.git_dir / "config").write_text(_CONFIG)

    def tracked(self, index: bytes, shared: Iterable[tuple[str, bytes]] = ()) -> set[bytes]:
        """Paths in a git index; `shared`: the files that a split one is based on, by name."""
        (self.git_dir / "index").write_bytes(index)
        for name, data in shared:
            (self.git_dir / name).write_bytes(data)
        listed = self._run(["ls-files", "-z", "--cached"])
        (self.git_dir / "index").unlink()
        return set(_fields(listed))

    def ignored(self, paths: Iterable[bytes], *, rules: Iterable[tuple[bytes, bytes]], excludes: bytes) -> set[bytes]:
        """Which of the paths git would ignore. `rules`: `.gitignore` files by folder; `excludes`: patterns that are
        weaker than theirs. The paths are judged as files."""
        for folder, data in rules:
            work_folder = self._work / os.fsdecode(folder)
            work_folder.mkdir(parents=True, exist_ok=True)
            (work_folder / ".gitignore").write_bytes(data)
        (self.git_dir / "info" / "exclude").write_bytes(excludes)
        with tempfile.TemporaryFile(dir=self.git_dir) as names:
            # With `./`, a name that begins with a colon is no magic pathspec.
            names.writelines(b"./" + path + b"\0" for path in paths)
            names.seek(0)
            # Exit code 1 says that none is.
            output = self._run(["check-ignore", "--no-index", "-z", "--stdin"], source=names, ok_codes=(0, 1))
        return {path.removeprefix(b"./") for path in _fields(output)}

    @contextmanager
    def importer(self) -> Iterator["Importer"]:
        """Collects blobs and two trees; they are in the repository after the block."""
        with tempfile.TemporaryFile(dir=self.git_dir) as stream:
            yield Importer(stream)
            stream.seek(0)
            self._run(["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--date-format=raw"], source=stream)

    def diff(self) -> bytes:
        """From the tree `before` to the tree `after`."""
        options = ["--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"]
        prefixes = ["--src-prefix=a/", "--dst-prefix=b/"]
        return self._run(["diff-tree", "-r", "-p", *options, *prefixes, "refs/heads/before", "refs/heads/after"])

    def _run(
        self,
        words: list[str],
        *,
        source: IO[bytes] | None = None,
        ok_codes: Sequence[int] = (0,),
    ) -> bytes:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._home),
            "XDG_CONFIG_HOME": str(self._home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self._work),
            "LC_ALL": "C",
        }
        try:
            done = subprocess.run(
                ["git", *words],
                cwd=self._work,
                env=env,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
                stdin=source or subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise SandboxError("patches need git on this machine", kind="git", retryable=False) from None
        except subprocess.TimeoutExpired:
            raise SandboxError(f"git {words[0]} took longer than {_TIMEOUT_S:g} s", kind="git") from None
        if done.returncode not in ok_codes:
            error_text = done.stderr.decode(errors="replace").strip()[-1000:]
            raise SandboxError(f"git {words[0]} ended with {done.returncode}: {error_text}", kind="git")
        return done.stdout


class Importer:
    """Writes git's fast-import stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._blobs = 0

    def blob(self, data: bytes) -> int:
        """The mark of a new blob."""
        self._blobs += 1
        self._stream.write(b"blob\nmark :%d\ndata %d\n%s\n" % (self._blobs, len(data), data))
        return self._blobs

    def tree(self, branch: bytes, entries: Iterable["Entry"]) -> None:
        self._stream.write(b"commit refs/heads/%s\ncommitter paddock <paddock> 0 +0000\ndata 0\n" % branch)
        for path, mode, mark in entries:
            self._stream.write(b"M %s :%d %s\n" % (mode, mark, _quote_path(path)))
        self._stream.write(b"\n")


Entry = tuple[bytes, bytes, int]
"""Path, git mode, mark of the blob."""


@contextmanager
def private_repository(scratch: Path) -> Iterator[PrivateRepository]:
    """A repository below `scratch`; where this process is killed, whoever removes `scratch` removes it."""
    with tempfile.TemporaryDirectory(prefix="paddock-git-", dir=scratch) as folder:
        yield PrivateRepository(Path(folder))


def _quote_path(path: bytes) -> bytes:
    """As git reads paths in quotes."""
    plain = b"".join(bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in path)
    return b'"' + plain + b'"'


def _fields(data: bytes) -> list[bytes]:
    return [field for field in data.split(b"\0") if field]
