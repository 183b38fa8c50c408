"""Makes the files that say of all that is installed which version and which hash: run after a version has changed.

Usage   python scripts/lock.py [npm] [python] [--upgrade]: both unless one is named; needs npm, and uv (`dev` has it)
Python  requirements.lock: what `make setup` installs, with the hashes of all files of each release, for Python 3.11 and
        newer on any processor. Versions stay as they are where they fit; --upgrade takes the newest.
Npm     harnesses/NAME/package-lock.json, of the version that the harness names; without addresses, as each machine has
        its own registry.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from paddock.harness.programs.choosing import known
from paddock.harness.programs.program import Program

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# Versions and hashes of all that `make setup` installs: python scripts/lock.py python\n"
COMPILE = (
    *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--no-annotate", "--no-header"),
    *("--universal", "--generate-hashes", "--python-version", "3.11"),
)


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


def lock_python(*flags: str) -> None:
    lock = ROOT / "requirements.lock"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    swebench = re.search(r"^SWEBENCH := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert swebench is not None
    with tempfile.TemporaryDirectory() as name:
        # What builds the package is there before, so that nothing is fetched for it unseen.
        build, alone, compiled = (Path(name, file) for file in ("build.in", "alone.in", "compiled"))
        build.write_text("\n".join(project["build-system"]["requires"]))
        alone.write_text(f"swebench=={swebench[1]}")
        if lock.exists():
            compiled.write_text(lock.read_text())
        words = [*COMPILE, *flags, "--extra", "dev", "pyproject.toml", str(build), "--output-file", str(compiled)]
        subprocess.run(words, cwd=ROOT, check=True)
        # Without what it declares: see the Makefile.
        done = subprocess.run([*COMPILE, "--no-deps", str(alone)], cwd=ROOT, check=True, capture_output=True, text=True)
        lock.write_text(HEAD + compiled.read_text() + done.stdout)
    print(f"{lock.name}: {len(re.findall('^[^ #]+==', lock.read_text(), re.MULTILINE))} packages")


def main(*words: str) -> None:
    flags = [word for word in words if word == "--upgrade"]
    named = [word for word in words if word not in flags]
    if unknown := set(named) - {"npm", "python"}:
        sys.exit(f"lock.py: {', '.join(sorted(unknown))}: there are npm, python and --upgrade")
    if not named or "python" in named:
        lock_python(*flags)
    for program in known().programs.values() if not named or "npm" in named else ():
        if program.lock is not None:
            lock_npm(program)


if __name__ == "__main__":
    main(*sys.argv[1:])
