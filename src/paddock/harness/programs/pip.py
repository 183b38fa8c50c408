"""Programs from a Python package index: a virtual environment of their own.

Place   its scripts name the folder that they were made in, so it is made where it stays.
Python  the one that the program asks for: `python3.12` on PATH, else one of pyenv's; for a program that asks for none
        the one that runs paddock.
Lock    every package in one version, its file checked by its hash before it is unpacked. Source distributions are built
        by what was installed before them: nothing is fetched for that. A version that the lock is not of comes with
        what the index has on the day.
Rest    what came beside is in `requirements.txt`.
Index   pip's own settings, as the user has them.
Errors  ConfigError: no such Python, or one that can't make environments; InfraError: venv or pip failed.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from paddock.errors import ConfigError, InfraError
from paddock.harness.programs.host_commands import HostCommands
from paddock.harness.programs.program import Program

TIMEOUT_S = 3600.0
ASK_TIMEOUT_S = 60.0
BUILT = "# Source distributions, built by what is above:\n"
"""Divides a lock: what is below it is installed after what is above."""
_CHECKED = ("--require-hashes", "--no-deps", "--no-build-isolation")
_PROBE = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def install(program: Program, folder: Path, commands: HostCommands) -> None:
    """Install a program into `folder`, which exists and is empty. Raises ConfigError, InfraError."""
    python = find_python(program.python, commands)
    if python is None:
        raise ConfigError(
            f"harness {program.name} runs {program.package_text}, which {_missing(program)}", kind="no_python"
        )
    _run(commands, [python, "-m", "venv", str(folder)], f"{python} -m venv")
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    flags = ["--no-input", "--disable-pip-version-check", "--quiet"]
    what = f"pip install {program.package_text}"
    lock = read_lock(program)
    if lock is None:
        _run(commands, [*pip, "install", *flags, *program.pinned_packages], what)
    for number, part in enumerate(lock.split(BUILT) if lock else ()):
        pins = folder / f"lock-{number}.txt"
        pins.write_text(part)
        _run(commands, [*pip, "install", *flags, *_CHECKED, "-r", pins], f"{what} by its lock")
    (folder / "requirements.txt").write_text(_run(commands, [*pip, "freeze"], "pip freeze"))


def read_lock(program: Program) -> str | None:
    """Return the text of the program's lock; None: it is of another version."""
    if program.lock is None:
        return None
    text = program.lock.read_text()
    locked = set(re.findall(r"^[^\s#]+==[^\s;]+", text, re.MULTILINE))
    return text if locked.issuperset(pin for pin in program.pinned_packages if "==" in pin) else None


def find_python(version: str | None, commands: HostCommands) -> str | None:
    """Find a Python of a version such as `3.12` that can make environments; None: none was found. `version` None: the
    one that runs paddock."""
    candidates = [sys.executable] if version is None else _candidates(version, commands)
    for python in candidates:
        # pyenv has a command for each version that it knows, which fails unless that version is chosen.
        done = commands.run([python, "-c", _PROBE], timeout_s=ASK_TIMEOUT_S)
        if done.code == 0 and (version is None or done.output.split()[-1:] == [version]):
            return python
    return None


def _candidates(version: str, commands: HostCommands) -> Iterator[str]:
    if on_path := commands.find(f"python{version}"):
        yield on_path
    root = Path(commands.environ.get("PYENV_ROOT") or Path(commands.environ.get("HOME", "/")) / ".pyenv")
    yield from map(str, sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True))


def _missing(program: Program) -> str:
    if program.python is None:
        return f"needs venv and ensurepip, which {sys.executable} has not both (Debian: apt install python3-venv)"
    python = f"python{program.python}"
    return (
        f"needs Python {program.python} with venv, and there is none as {python} on PATH or in pyenv's versions: "
        f"apt install {python}-venv, or pyenv install {program.python}"
    )


def _run(commands: HostCommands, words: Sequence[str | Path], what: str) -> str:
    """Run a command and return its output. Raises InfraError."""
    done = commands.run(words, timeout_s=TIMEOUT_S)
    if done.code is None:
        raise InfraError(f"{what}: not done in {TIMEOUT_S:.0f} s", kind="install_timeout")
    if done.code != 0:
        raise InfraError(f"{what} failed:\n{done.tail}", kind="install_failed")
    return done.output
