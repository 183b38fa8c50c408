"""Official eval scripts: made where a row has none, adapted where the image was built from a recipe.

Made    environment, tree, test patch, markers, command, in the official order: nothing is installed (the image is). The
        grader skips the lines of git and places the reference's files itself; the official procedure runs them.
Adapted conda gives way to the recipe's virtual environment, the locale to one that is always there, an installation
        from an index to the recipe's own, or to nothing where the tree is installed in place, tox to what it runs.
"""

import re
import shlex

from paddock.resources_servers.swe.official import END, START
from paddock.resources_servers.swe.rows.commands import TOX, TOX_RUNS, RepoCommand

VENV = "/opt/venv/bin/activate"
OFFLINE = "--no-build-isolation --no-deps --no-index"
HEREDOC = "EOF_114329324912"
"""The word that swebench ends a test patch with."""
_OLD_FILE = re.compile(rb"^--- a/(.*?)[\r\t]*$", re.MULTILINE)
_ACTIVATE = re.compile(r"^(source|\.) /opt/miniconda3/bin/activate$")
_PIP = re.compile(r"^(python3? -m )?pip3? install\b")
_EDITABLE = re.compile(r"\s(-e|--editable)\b")


def make(command: RepoCommand, *, test_patch: bytes, workdir: str, conda: bool) -> str:
    """Make a script in the official form around a test command."""
    activate = ["source /opt/miniconda3/bin/activate", "conda activate testbed"] if conda else [f". {VENV}"]
    old = dict.fromkeys(_OLD_FILE.findall(test_patch))
    files = " ".join(shlex.quote(path.decode("utf-8", "surrogateescape")) for path in old)
    reset = f"git checkout HEAD {files}" if files else ":"
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        *activate,
        f"cd {workdir}",
        *command.before,
        reset,
        f"git apply -v - <<'{HEREDOC}'\n{test_patch.decode('utf-8', 'surrogateescape')}\n{HEREDOC}",
        f": '{START}'",
        command.line if conda else command.line.replace(TOX, TOX_RUNS),
        f": '{END}'",
        reset,
    ]
    return "\n".join(lines) + "\n"


def adapt(script: str, *, install: str | None, recipe: bool) -> str:
    """Adapt a script to no network; for the image of a recipe, whose tree `install` installed, in its terms."""
    head, marker, rest = script.partition(f": '{START}'")
    lines = [_recipe_line(line, install) if recipe else _offline(line) for line in head.split("\n")]
    return "\n".join(lines) + marker + (rest.replace(TOX, TOX_RUNS) if recipe else rest)


def _offline(line: str) -> str:
    if not _PIP.match(line):
        return line
    return ":" if _EDITABLE.search(line) else f"{line} {OFFLINE}"


def _recipe_line(line: str, install: str | None) -> str:
    if _ACTIVATE.match(line):
        return f". {VENV}"
    if line == "conda activate testbed" or "locale-gen" in line:
        return ":"
    if line == "export LANGUAGE=en_US:en":
        return ":"
    if line.startswith("export ") and "en_US.UTF-8" in line:
        return line.replace("en_US.UTF-8", "C.UTF-8")
    if _PIP.match(line):
        again = install is not None and _PIP.match(install) and not _EDITABLE.search(install)
        return install if again and install else ":"
    return line
