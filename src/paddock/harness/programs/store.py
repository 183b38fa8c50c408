"""Programs of harnesses that are installed on this machine.

Layout  `<home>/programs/<name>-<version>/` as its installer left it, with `bin/<command>` and `program.json`. Beside
        them `.locks/<folder>`, held by flock while one is installed or removed, and `.making/<folder>`.
Law     a program is whole or it is not there: `program.json` is written last, and what has none is never found. What a
        dead installer left is removed by the next one. Two who install the same at once install it once.
Modes   all users can read and run it, as sandboxes run as another one; nobody but its owner can write.
Network only `install` uses it.
Errors  ConfigError: not installed (with the command that installs it), no npm or Python that could, a layout that is
        not the expected one; InfraError: the installer failed.
"""

import contextlib
import fcntl
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from paddock.errors import ConfigError
from paddock.harness.programs import npm, pip
from paddock.harness.programs.catalogue import program_of
from paddock.harness.programs.host_commands import HostCommands
from paddock.harness.programs.installation import RECORD, InstalledProgram, finish
from paddock.harness.programs.program import Program
from paddock.sandbox.layers import remove_tree
from paddock.sandbox.settings import PROGRAMS, default_home

INSTALLERS: dict[str, Callable[[Program, Path, HostCommands], None]] = {"npm": npm.install, "pip": pip.install}
LOCKS: dict[str, Callable[[Program], str | None]] = {"npm": npm.read_lock, "pip": pip.read_lock}
IN_PLACE = frozenset({"pip"})
"""Sources whose folders can't be moved."""
_LOCKS, _STAGING = ".locks", ".making"


def _ignore(_: str) -> None:
    pass


class ProgramStore:
    """The programs below one home."""

    def __init__(self, home: Path | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        """`environ`: the environment in which npm, Pythons and their settings are found; None: our own."""
        self.home = (home or default_home()).expanduser().absolute()
        self.root = self.home / PROGRAMS
        self._environ = os.environ if environ is None else environ

    def find(self, program: Program) -> InstalledProgram:
        """Return the installation of a program. Raises ConfigError, with the command that installs it."""
        installed = self._read(self.root / program.folder)
        if installed is None:
            raise ConfigError(
                f"harness {program.name} runs {program.package_text}, which is not installed: "
                f"{self.command('install', program)}",
                kind="program_missing",
            )
        return installed

    def installed(self) -> list[InstalledProgram]:
        """List all installations, by name and version."""
        folders = sorted(self.root.glob("[!.]*")) if self.root.is_dir() else []
        return [installed for folder in folders if (installed := self._read(folder)) is not None]

    def install(self, program: Program, say: Callable[[str], None] = _ignore) -> InstalledProgram:
        """Install a program unless it is installed, and return it. `say` gets a message before what takes long."""
        folder = self.root / program.folder
        if installed := self._read(folder):
            return installed
        self._prepare()
        with self._locked(program.folder, say) as lock:
            if installed := self._read(folder):
                return installed
            self._sweep(spared=program.folder)
            self._clear(program.folder)
            staging = folder if program.source in IN_PLACE else self.root / _STAGING / program.folder
            try:
                staging.mkdir(mode=0o755)
                unlocked = LOCKS[program.source](program) is None
                note = " (there is no lock for this version here: what comes is not checked)" if unlocked else ""
                say(f"{program.source} installs {program.package_text}{note}")
                INSTALLERS[program.source](program, staging, HostCommands(self._environ, held=[lock]))
                finish(program, staging)
                if staging != folder:
                    staging.rename(folder)
            except BaseException:
                remove_tree(staging)
                raise
        return self.find(program)

    def remove(self, program: Program) -> None:
        """Remove an installation; runs that use it fail. Raises ConfigError where there is none."""
        if not (self.root / program.folder).exists():
            raise ConfigError(f"{program.folder} is not in {self.root}", kind="program_missing")
        self._prepare()
        with self._locked(program.folder, _ignore):
            self._clear(program.folder)

    def command(self, verb: str, program: Program) -> str:
        """Return the command line that does `verb` with a program, for messages."""
        words = ["paddock", "harness", verb, program.name]
        try:
            pinned = program_of(program.name).version
        except ConfigError:
            pinned = None
        if program.version != pinned:
            words += ["--version", program.version]
        if self.home != default_home().expanduser().absolute():
            words += ["--home", str(self.home)]
        return shlex.join(words)

    def _read(self, folder: Path) -> InstalledProgram | None:
        try:
            return InstalledProgram.model_validate_json((folder / RECORD).read_bytes()).at(folder)
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None

    def _prepare(self) -> None:
        for path, mode in (
            (self.home, 0o711),
            (self.root, 0o755),
            (self.root / _LOCKS, 0o755),
            (self.root / _STAGING, 0o755),
        ):
            if not path.exists():
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(mode)

    @contextlib.contextmanager
    def _locked(self, name: str, say: Callable[[str], None]) -> Iterator[int]:
        lock = os.open(self.root / _LOCKS / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            if not _try_lock(lock):
                say(f"waiting for another process that is at {name}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)

    def _sweep(self, *, spared: str) -> None:
        """Remove half-made installations whose installer is dead."""
        for path in (self.root / _LOCKS).iterdir():
            if path.name == spared:
                continue
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _try_lock(lock) and not (self.root / path.name / RECORD).exists():
                    self._clear(path.name)
            finally:
                os.close(lock)

    def _clear(self, name: str) -> None:
        """Remove an installation; the caller holds its lock. The record goes first: half of one is never found."""
        (self.root / name / RECORD).unlink(missing_ok=True)
        remove_tree(self.root / name)
        remove_tree(self.root / _STAGING / name)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
