"""Programs from npm: `npm install` of exact versions into a folder of their own.

Scripts no package's install script is run: the programs that harnesses run are ready as they are packed.
Builds  the package for this machine's system and processor comes as an optional dependency of the named one.
Rest    what came beside is in `package-lock.json`.
Cache   npm's own, as the user has it set; so are its registry and its proxy.
Errors  ConfigError: no npm, or one too old; InfraError: npm failed, with its last lines.
"""

import re
from pathlib import Path

from paddock.errors import ConfigError, InfraError
from paddock.harness.programs.children import Commands
from paddock.harness.programs.program import Program

OLDEST = 9
"""Debian 12's."""
TIMEOUT_S = 1800.0
ASK_TIMEOUT_S = 60.0

_FLAGS = (
    *("--ignore-scripts", "--include=optional", "--save-exact"),
    *("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"),
)


def install(program: Program, folder: Path, commands: Commands) -> None:
    """Into `folder`, which is there and empty."""
    npm = find_npm(program, commands)
    words = [npm, "install", *_FLAGS, "--prefix", str(folder), *program.wanted]
    done = commands.run(words, timeout_s=TIMEOUT_S, cwd=folder)
    if done.code is None:
        raise InfraError(f"npm install {program.words}: not done in {TIMEOUT_S:.0f} s", kind="install_timeout")
    if done.code != 0:
        raise InfraError(f"npm install {program.words} failed:\n{done.tail}", kind="install_failed")


def find_npm(program: Program, commands: Commands) -> str:
    """One that is new enough."""
    needs = f"harness {program.name} runs {program.words}, which comes by npm {OLDEST} or newer"
    how = "install Node.js 20 or newer, which brings it (Debian: apt install npm)"
    npm = commands.find("npm")
    if npm is None:
        raise ConfigError(f"{needs}, and there is no npm on PATH: {how}", kind="npm_missing")
    done = commands.run([npm, "--version"], timeout_s=ASK_TIMEOUT_S)
    # Warnings about the user's settings may stand before it.
    said = re.findall(r"^(\d+)\.\d+\.\d+\S*$", done.output, re.MULTILINE)
    if done.code != 0 or not said:
        raise ConfigError(
            f"{needs}, and {npm} does not run ({done.tail or 'it says nothing'}): {how}", kind="npm_broken"
        )
    if int(said[-1]) < OLDEST:
        raise ConfigError(f"{needs}, and {npm} is version {said[-1]}: {how}", kind="npm_old")
    return npm
