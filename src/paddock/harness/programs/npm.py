"""Programs from npm: exact versions, with all that comes beside them, into a folder of their own.

Lock    `npm ci` of the program's lock: every package in one version, its archive checked by its hash before it is
        unpacked. A version or a processor that the lock is not of comes by `npm install`: what it needs is what the
        registry says now.
Scripts no package's install script is run: the programs that harnesses run are ready as they are packed.
Builds  the package for this machine's system and processor comes as an optional dependency of the named one.
Rest    what came is in `package-lock.json`.
Cache   npm's own, as the user has it set; so are its registry and its proxy.
Errors  ConfigError: no npm, or one too old; InfraError: npm failed, with its last lines.
"""

import json
import platform
import re
from fnmatch import fnmatch
from pathlib import Path

from paddock.errors import ConfigError, InfraError
from paddock.harness.programs.host_commands import HostCommands
from paddock.harness.programs.program import Program

OLDEST = 9
"""Oldest major version of npm that is used: Debian 12's."""
TIMEOUT_S = 1800.0
ASK_TIMEOUT_S = 60.0

_FLAGS = (
    *("--ignore-scripts", "--include=optional"),
    *("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"),
)


def install(program: Program, folder: Path, commands: HostCommands) -> None:
    """Install a program into `folder`, which exists and is empty. Raises ConfigError, InfraError."""
    npm = find_npm(program, commands)
    lock = read_lock(program)
    if lock is None:
        verb, more = "install", ["--save-exact", "--prefix", str(folder), *program.pinned_packages]
    else:
        verb, more = "ci", ["--prefix", str(folder)]
        (folder / "package.json").write_text(json.dumps({"dependencies": _versions(program)}))
        (folder / "package-lock.json").write_text(lock)
    done = commands.run([npm, verb, *_FLAGS, *more], timeout_s=TIMEOUT_S, cwd=folder)
    if done.code is None:
        raise InfraError(f"npm {verb} {program.package_text}: not done in {TIMEOUT_S:.0f} s", kind="install_timeout")
    if done.code != 0:
        raise InfraError(f"npm {verb} {program.package_text} failed:\n{done.tail}", kind="install_failed")


def read_lock(program: Program) -> str | None:
    """Return the text of the program's lock; None: it is of another version or processor."""
    if program.lock is None:
        return None
    text = program.lock.read_text()
    packages = json.loads(text)["packages"]
    if packages[""]["dependencies"] != _versions(program):
        return None
    here = {"x86_64": "x64", "aarch64": "arm64"}.get(machine := platform.machine(), machine)
    fitting = [path for path, package in packages.items() if path and here in package.get("cpu", [here])]
    whole = all(any(_may_hold(path, pattern) for path in fitting) for pattern in program.commands.values())
    return text if whole else None


def _may_hold(path: str, pattern: str) -> bool:
    """Whether a command that fits a pattern may lie in the package at a path."""
    return fnmatch(path, "/".join(pattern.split("/")[: path.count("/") + 1]))


def _versions(program: Program) -> dict[str, str]:
    return {name: version for name, _, version in (package.rpartition("@") for package in program.pinned_packages)}


def find_npm(program: Program, commands: HostCommands) -> str:
    """Find an npm that is new enough. Raises ConfigError."""
    needs = f"harness {program.name} runs {program.package_text}, which comes by npm {OLDEST} or newer"
    how = "install Node.js 20 or newer, which brings it (Debian: apt install npm)"
    npm = commands.find("npm")
    if npm is None:
        raise ConfigError(f"{needs}, and there is no npm on PATH: {how}", kind="npm_missing")
    done = commands.run([npm, "--version"], timeout_s=ASK_TIMEOUT_S)
    # Warnings about the user's settings may stand before it.
    versions = re.findall(r"^(\d+)\.\d+\.\d+\S*$", done.output, re.MULTILINE)
    if done.code != 0 or not versions:
        raise ConfigError(
            f"{needs}, and {npm} does not run ({done.tail or 'it says nothing'}): {how}", kind="npm_broken"
        )
    if int(versions[-1]) < OLDEST:
        raise ConfigError(f"{needs}, and {npm} is version {versions[-1]}: {how}", kind="npm_old")
    return npm
