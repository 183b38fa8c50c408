"""Claims about the mirror of the sandbox's files: without the program; a folder of the test is the sandbox."""

import subprocess
from pathlib import Path

import pytest

from paddock.harnesses.openhands_v0.mirror import Mirror
from paddock.types import JsonObject

LIMIT = 100


class Bridge:
    """Acts on this machine."""

    def exec(self, *, argv: list[str], timeout_s: float) -> JsonObject:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
        return {"output": (done.stdout + done.stderr).decode(), "exit_code": done.returncode}

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)


@pytest.fixture
def mirror() -> Mirror:
    return Mirror(Bridge(), LIMIT)


def test_a_file_stands_as_it_stands_inside_and_what_is_written_goes_there(mirror: Mirror, tmp_path: Path) -> None:
    path = tmp_path / "it's a.py"
    path.write_text("a\n")
    place = mirror.fetch(str(path))
    assert (place.name, place.read_text()) == (path.name, "a\n")
    path.write_text("b\n")
    assert mirror.fetch(str(path)) == place
    assert place.read_text() == "b\n"
    place.write_text("c\n")
    mirror.push(place)
    assert path.read_text() == "c\n"
    assert mirror.told(f"{place} in {place.parent}", place) == f"{path} in {tmp_path}"


@pytest.mark.parametrize("name", ["plain", "a;touch x", "$(touch x)", "`touch x`", "a b", "-rf", "it's"])
def test_a_folder_has_no_name_here_that_a_shell_could_read(mirror: Mirror, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    place = mirror.fetch(str(folder))
    assert place.name == "_"
    found = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
    assert found == ["src", "src/a.py", "src/deep"]
    assert mirror.told(f"{place}/src", place) == f"{folder}/src"


def test_what_is_not_there_is_not_here_and_what_is_no_file_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    assert not mirror.fetch(str(tmp_path / "new.py")).exists()
    assert mirror.fetch(str(tmp_path / "new.py")).parent.is_dir()
    assert not mirror.fetch(str(tmp_path / "no" / "new.py")).parent.exists()
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        mirror.fetch("/dev/null")
    (tmp_path / "large").write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(ValueError, match="too large"):
        mirror.fetch(str(tmp_path / "large"))
