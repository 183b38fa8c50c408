"""An npm and a Python that tests write: what they install is a few bytes, and says its version.

Place   scripts in a folder that a test's PATH begins with; each call of `install` adds a line to `installs` there.
Steps   shell lines that run when something is installed, in the new folder, with the packages as arguments.
"""

import os
from pathlib import Path
from typing import Literal

from paddock.harness import Program

_NPM = """#!/bin/sh
set -e
[ "$1" = --version ] && {{ echo {version}; exit; }}
while [ "$1" != --prefix ]; do shift; done
cd "$2"; shift 2
echo "$*" >> {place}/installs
mkdir -p node_modules/say/bin
{{ echo '#!/bin/sh'; echo "echo say ${{1##*@}}"; }} > node_modules/say/bin/say
chmod 700 node_modules/say/bin/say
{steps}
"""
_PYTHON = """#!/bin/sh
set -e
case "$*" in
"-c "*) echo {version} ;;
"-m venv "*) mkdir "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip install "*)
    cd "$(dirname "$0")/.."
    echo "$*" >> {place}/installs
    {steps}
    printf '#!/bin/sh\\necho say\\n' > bin/say
    chmod 700 bin/say ;;
*) echo {said} ;;
esac
"""


def make_npm(place: Path, steps: str = ":", *, version: str = "10.8.2") -> None:
    """`steps` run after `node_modules/say/bin/say` was made."""
    _write(place / "npm", _NPM.format(version=version, place=place, steps=steps))


def make_python(place: Path, steps: str = ":", *, version: str = "3.12", said: str = "1.0.0", name: str = "") -> None:
    """`steps` run before `bin/say` is made; `said`: the version of what its environments have."""
    _write(place / (name or f"python{version}"), _PYTHON.format(version=version, place=place, steps=steps, said=said))


def environ_with(place: Path, **more: str) -> dict[str, str]:
    """One that finds them before the machine's own."""
    return {"PATH": f"{place}:{os.environ['PATH']}", "HOME": str(place), **more}


def installs(place: Path) -> list[str]:
    """What was installed, a line each."""
    file = place / "installs"
    return file.read_text().splitlines() if file.exists() else []


def program(
    source: Literal["npm", "pip"] = "npm", *, version: str = "1.0.0", command: str | None = None, name: str = "fake"
) -> Program:
    """One that those install."""
    at = {"npm": ("say@{version}", "node_modules/say*/bin/say"), "pip": ("say=={version}", "bin/say")}
    package, pattern = at[source]
    return Program(
        name=name,
        version=version,
        where="inside" if source == "npm" else "outside",
        source=source,
        packages=(package,),
        commands={"say": command or pattern},
        python="3.12" if source == "pip" else None,
        licence="MIT",
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
