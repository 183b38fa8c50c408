"""Official eval scripts: made where a row has none, adapted where the image was built from a recipe.

Made    environment, tree, markers, command: nothing is installed (the image is), no test patch is in it (the grader
        places the reference's files itself).
Adapted conda gives way to the recipe's virtual environment, the locale to one that is always there, an installation
        from an index to the recipe's own, or to nothing where the tree is installed in place.
"""

import re

from paddock.resources_servers.swe.official import END, START
from paddock.resources_servers.swe.rows.commands import Command

VENV = "/opt/venv/bin/activate"
OFFLINE = "--no-build-isolation --no-deps --no-index"
_ACTIVATE = re.compile(r"^(source|\.) /opt/miniconda3/bin/activate$")
_PIP = re.compile(r"^(python3? -m )?pip3? install\b")
_EDITABLE = re.compile(r"\s(-e|--editable)\b")


def make(command: Command, *, workdir: str, conda: bool) -> str:
    """A script in the official form around a test command."""
    activate = ["source /opt/miniconda3/bin/activate", "conda activate testbed"] if conda else [f". {VENV}"]
    lines = [
        "#!/bin/bash",
        "set -uxo pipefail",
        *activate,
        f"cd {workdir}",
        *command.before,
        f": '{START}'",
        command.line,
        f": '{END}'",
    ]
    return "\n".join(lines) + "\n"


def adapt(script: str, *, install: str | None, recipe: bool) -> str:
    """The script without a network; for an image of a recipe whose tree was installed by `install`, in its terms."""
    head, found, rest = script.partition(f": '{START}'")
    lines = [_recipe_line(line, install) if recipe else _offline(line) for line in head.split("\n")]
    return "\n".join(lines) + found + rest


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
