"""Claims about locks of programs from pip: a real pip installs what the lock says, checked, or nothing at all."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sampling import few
from tests.support.distributions import make_sdist, make_wheel
from tests.support.programs import environ_with

from paddock.errors import InfraError
from paddock.harness import Program
from paddock.harness.programs.catalogue import load_catalogue
from paddock.harness.programs.pip import BUILT, read_lock
from paddock.harness.programs.store import ProgramStore

PYTHON = f"3.{sys.version_info.minor}"
LOCKED = sorted(name for name, program in load_catalogue().programs.items() if program.source == "pip" and program.lock)
LINE = re.compile(r"^\S+==\S+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n", re.M)
BACKEND = """
import pathlib, zipfile
def build_wheel(folder, *_):
    with zipfile.ZipFile(f"{folder}/raw-1.0-py3-none-any.whl", "w") as made:
        made.writestr("raw.py", pathlib.Path("text").read_text())
        made.writestr("raw-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: raw\\nVersion: 1.0\\n")
        made.writestr("raw-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr("raw-1.0.dist-info/RECORD", "")
    return "raw-1.0-py3-none-any.whl"
"""
BUILD_SYSTEM = '[build-system]\nrequires = ["backend"]\nbuild-backend = "backend"\n'


class PackageIndex:
    """A folder of distributions, the only place where pip looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()

    def wheel(self, name: str, version: str, text: str = "", *, needs: str | None = None) -> str:
        """Its line in a lock."""
        data = make_wheel(name, version, {f"{name}.py": text}, [needs] if needs else [])
        return self._put(f"{name}-{version}-py3-none-any.whl", data)

    def source(self, name: str, text: str) -> str:
        """The same of a source distribution, which the wheel `backend` builds."""
        return self._put(
            f"{name}-1.0.tar.gz", make_sdist(f"{name}-1.0", {"text": text, "pyproject.toml": BUILD_SYSTEM})
        )

    def _put(self, file: str, data: bytes) -> str:
        (self.folder / file).write_bytes(data)
        name, version = re.split(r"-|\.tar", file)[:2]
        return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(data).hexdigest()}\n"


@pytest.fixture
def index(tmp_path: Path) -> PackageIndex:
    return PackageIndex(tmp_path)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose environments are copies of one, as making one takes seconds; pip is the real one."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder / "made"], check=True)
    copies = f'[ "$2" != venv ] || exec cp -rT {folder}/made "$3"\nexec {sys.executable} "$@"'
    (folder / f"python{PYTHON}").write_text(f"#!/bin/sh\n{copies}\n")
    (folder / f"python{PYTHON}").chmod(0o755)
    return folder


@pytest.fixture
def store(tmp_path: Path, index: PackageIndex, tools: Path) -> ProgramStore:
    settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index.folder), "PIP_CONFIG_FILE": os.devnull}
    return ProgramStore(tmp_path / "home", environ=environ_with(tools, **settings))


def program(folder: Path, *lines: str, version: str = "1.0") -> Program:
    """One with the lock of those lines."""
    lock = folder / "requirements.lock"
    lock.write_text("--only-binary :all:\n" + "".join(lines))
    return Program(
        name="fake",
        version=version,
        where="outside",
        source="pip",
        packages=("say=={version}", "tell"),
        lock=lock,
        commands={"python": "bin/python"},
        python=PYTHON,
        licence="MIT",
    )


def run(python: Path, code: str) -> str:
    return subprocess.check_output([python, "-I", "-c", code], text=True).strip()


@pytest.mark.slow
def test_what_the_lock_says_is_installed_and_sources_are_built_by_it_alone(
    store: ProgramStore, index: PackageIndex, tmp_path: Path
) -> None:
    lines = [
        index.wheel("say", "1.0", needs="tell"),
        index.wheel("tell", "1.0"),
        index.wheel("backend", "1.0", BACKEND),
    ]
    wanted = program(tmp_path, *lines, BUILT, index.source("raw", "value = 8"))
    index.wheel("tell", "1.5")
    index.wheel("backend", "2.0", "raise SystemExit('this is not what the lock has')")
    made = store.install(wanted)
    code = "import importlib.metadata as m, raw; print(m.version('tell'), raw.value)"
    assert run(made.commands["python"], code) == "1.0 8"


@pytest.mark.slow
@pytest.mark.parametrize("changed", few(["wheel", "source", "lock"], ["source"], pytest.mark.long))
def test_a_file_with_another_hash_is_neither_installed_nor_run(
    changed: str, store: ProgramStore, index: PackageIndex, tmp_path: Path
) -> None:
    mark = tmp_path / "was run"
    evil = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    lines = [index.wheel("say", "1.0"), index.wheel("tell", "1.0"), index.wheel("backend", "1.0", BACKEND), BUILT]
    lines.append(index.source("raw", ""))
    if changed == "wheel":
        index.wheel("backend", "1.0", evil + BACKEND)
    elif changed == "source":
        data = {"backend.py": evil + BACKEND, "pyproject.toml": BUILD_SYSTEM + 'backend-path = ["."]\n', "text": ""}
        (index.folder / "raw-1.0.tar.gz").write_bytes(make_sdist("raw-1.0", data))
    else:
        lines[1] = re.sub("sha256:.*", "sha256:" + "0" * 64, lines[1])
    with pytest.raises(
        InfraError, match=r"pip install say==1\.0 tell by its lock failed(.|\n)*MATCH THE HASHES"
    ) as caught:
        store.install(program(tmp_path, *lines))
    assert caught.value.kind == "install_failed"
    assert {"wheel": "backend==1.0", "source": "raw==1.0", "lock": "tell==1.0"}[changed] in str(caught.value)
    assert store.installed() == [] and not (store.root / "fake-1.0").exists()
    assert not mark.exists()


@pytest.mark.slow
def test_a_line_without_a_hash_is_refused(store: ProgramStore, index: PackageIndex, tmp_path: Path) -> None:
    lines = [index.wheel("say", "1.0"), index.wheel("tell", "1.0")]
    with pytest.raises(InfraError, match="Hashes are required"):
        store.install(program(tmp_path, lines[0], "tell==1.0\n"))
    assert store.installed() == []


@pytest.mark.slow
def test_a_version_without_a_lock_comes_as_the_index_has_it_and_that_is_said(
    store: ProgramStore, index: PackageIndex, tmp_path: Path
) -> None:
    lines = [index.wheel("say", "1.0"), index.wheel("tell", "1.0")]
    index.wheel("say", "2.0")
    index.wheel("tell", "1.5")
    said: list[str] = []
    made = store.install(program(tmp_path, *lines, version="2.0"), said.append)
    assert run(made.commands["python"], "import importlib.metadata as m; print(m.version('tell'))") == "1.5"
    assert any("no lock for this version here" in line for line in said)


@pytest.mark.parametrize("name", LOCKED)
def test_a_pinned_version_has_a_lock_with_hashes_of_every_package(name: str) -> None:
    pinned = load_catalogue().programs[name]
    assert pinned.lock is not None
    text = pinned.lock.read_text()
    assert read_lock(pinned) == text, "run scripts/lock.py pip"
    assert text.startswith(f"# Of {pinned.package_text}: python scripts/lock.py pip\n--only-binary :all:\n")
    assert "".join(LINE.sub("", text).splitlines(keepends=True)[2:]) in ("", BUILT)


def test_every_program_from_pip_has_a_lock() -> None:
    assert [name for name, one in load_catalogue().programs.items() if one.source == "pip"] == LOCKED
