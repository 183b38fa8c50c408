"""Claims about requirements.lock: it has what the project declares, each with hashes, and no address."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; [^\\\n]+)? \\\n(?P<hashes>(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.M,
)


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    todo = ["dev"]
    while todo:
        for line in extras[todo.pop()]:
            one = Requirement(line)
            if one.name == "paddock":
                todo += one.extras
            else:
                wanted.append(line)
    return [Requirement(line) for line in wanted]


def test_all_that_is_declared_is_locked_in_a_version_that_fits() -> None:
    locked = {canonicalize_name(entry["name"]): entry["version"] for entry in ENTRY.finditer(LOCK)}
    for one in declared():
        assert canonicalize_name(one.name) in locked, f"{one}: run scripts/lock.py python"
        assert one.specifier.contains(locked[canonicalize_name(one.name)]), f"{one}: run scripts/lock.py python"
    makefile = (ROOT / "Makefile").read_text()
    assert f"SWEBENCH := {locked[canonicalize_name('swebench')]}\n" in makefile


def test_every_entry_has_hashes_and_nothing_else_is_there() -> None:
    assert ENTRY.sub("", LOCK).splitlines() == LOCK.splitlines()[:1]
    assert "://" not in LOCK
