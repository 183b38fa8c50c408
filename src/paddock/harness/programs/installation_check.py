"""Whether an installed program is the one that was installed, and runs.

Files   every command is there, can be run and has the hash that it was installed with.
Runs    from npm: the first command says the version; from pip: the environment's Python says the versions of what was
        asked for. In an empty HOME, within `TIMEOUT_S`, and nothing of it is left.
Result  what is wrong, in words; an empty list: nothing is.
"""

import os
import re
from collections.abc import Mapping

from paddock.harness.programs.host_commands import HostCommands
from paddock.harness.programs.installation import InstalledProgram, sha256_of
from paddock.harness.programs.program import Program

TIMEOUT_S = 30.0
_DISTRIBUTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ASK = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"


def problems(
    installed: InstalledProgram,
    program: Program,
    *,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> list[str]:
    """List what is wrong with an installation; where a file has changed, it is not run."""
    wrong = [text for command in program.commands if (text := _changed(installed, command))]
    return wrong or _failures_to_run(
        installed, program, HostCommands(os.environ if environ is None else environ), timeout_s
    )


def _changed(installed: InstalledProgram, command: str) -> str | None:
    path = installed.folder / "bin" / command
    try:
        digest = sha256_of(installed.folder, command)
    except OSError as error:
        return f"{path}: {error.strerror}"
    if digest != installed.sha256.get(command):
        return f"{path}: not the file that was installed (sha256 {digest}, was {installed.sha256.get(command)})"
    return None if os.access(path, os.X_OK) else f"{path}: can't be run"


def _failures_to_run(
    installed: InstalledProgram, program: Program, commands: HostCommands, timeout_s: float
) -> list[str]:
    bin_folder = installed.folder / "bin"
    if program.source == "pip":
        matches = (_DISTRIBUTION.match(package) for package in program.packages if "{version}" in package)
        names = [match.group() for match in matches if match]
        argv, expected = (
            [str(bin_folder / "python"), "-I", "-c", _ASK, *names],
            " ".join([program.version] * len(names)),
        )
    else:
        argv, expected = [str(bin_folder / next(iter(program.commands))), "--version"], program.version
    done = commands.run(argv, timeout_s=timeout_s, own_home=True)
    if done.code is None:
        return [f"{argv[0]}: no answer in {timeout_s:.0f} s"]
    if done.code != 0:
        return [f"{argv[0]}: exit code {done.code}: {done.tail[-500:]}"]
    if not re.search(rf"(?<![\d.]){re.escape(expected)}(?!\w|\.\d)", done.output):
        return [f"{argv[0]}: says {done.tail[-200:]!r}, not {expected}"]
    return []
