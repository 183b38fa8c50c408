"""Makes the files that say of all that is installed which version and which hash: run after a version has changed.

Usage   python scripts/lock.py; needs npm
Npm     harnesses/NAME/package-lock.json, of the version that the harness names; without addresses, as each machine has
        its own registry.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from paddock.harness.programs.choosing import known
from paddock.harness.programs.program import Program

ROOT = Path(__file__).resolve().parent.parent


def lock_npm(program: Program) -> None:
    versions = dict(package.rpartition("@")[::2] for package in program.wanted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.json").write_text(json.dumps({"dependencies": versions}))
        words = ["npm", "install", "--package-lock-only", "--ignore-scripts", "--include=optional", "--no-audit"]
        subprocess.run([*words, "--no-fund"], cwd=folder, check=True)
        lock = json.loads((folder / "package-lock.json").read_text())
    lock["name"] = program.name
    # What a registry lacks of the packages for other systems, npm leaves out, and would miss when it reads the lock.
    for package in lock["packages"].values():
        optional = package.get("optionalDependencies", {})
        package.update({"optionalDependencies": there} if (there := _there(optional, lock["packages"])) else {})
    for path, package in lock["packages"].items():
        package.pop("resolved", None)
        if path and not package.get("integrity", "").startswith("sha512-"):
            sys.exit(f"{program.name}: npm states no sha512 of {path}")
    assert program.lock is not None
    program.lock.resolve().write_text(json.dumps(lock, indent=1) + "\n")
    print(f"{program.lock.resolve().relative_to(ROOT)}: {len(lock['packages']) - 1} packages")


def _there(optional: dict[str, str], packages: dict[str, object]) -> dict[str, str]:
    return {name: version for name, version in optional.items() if f"node_modules/{name}" in packages}


def main() -> None:
    for program in known().programs.values():
        if program.lock is not None:
            lock_npm(program)


if __name__ == "__main__":
    main()
