"""Claims about the mirror of the sandbox's files: without the program; a folder of the test is the sandbox."""

import subprocess
import tempfile
from pathlib import Path

import pytest

from paddock.harness.outside.mirror import Mirror
from paddock.types import JsonObject

LIMIT = 100


class LocalBridge:
    """Acts on this machine."""

    def exec(self, *, argv: list[str], timeout_s: float) -> JsonObject:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
        return {"output": (done.stdout + done.stderr).decode(), "exit_code": done.returncode}

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """In a folder of its program's, which is removed with all that is in it."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    return Mirror(LocalBridge(), LIMIT)


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "testbed"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "src" / "it's a.py").write_text("a\n")
    (folder / "link").symlink_to("src")
    return folder


def test_a_file_stands_as_it_stands_inside_each_time_it_is_asked_for(mirror: Mirror, inside: Path) -> None:
    path = inside / "src" / "it's a.py"
    place = mirror.fetch(str(path), creates=False)
    assert (place.name, place.read_text()) == (path.name, "a\n")
    path.write_text("b\n")
    assert mirror.fetch(str(path), creates=False) == place
    assert place.read_text() == "b\n"
    place.write_text("c\n")
    mirror.push(place)
    assert path.read_text() == "c\n"


def test_a_folder_stands_with_the_names_of_two_levels(mirror: Mirror, inside: Path) -> None:
    place = mirror.fetch(str(inside), creates=False)
    found = {str(each.relative_to(place)): each.is_dir() for each in place.rglob("*")}
    assert found == {
        ".git": True,
        "link": True,
        "link/deep": True,
        "link/it's a.py": False,
        "src": True,
        "src/deep": True,
        "src/it's a.py": False,
    }


def test_what_is_not_there_is_not_here(mirror: Mirror, inside: Path) -> None:
    place = mirror.fetch(str(inside / "new.py"), creates=True)
    assert (place.exists(), place.parent.is_dir()) == (False, True)
    assert not mirror.fetch(str(inside / "no" / "new.py"), creates=True).parent.exists()
    place = mirror.fetch(str(inside / "gone"), creates=False)
    inside.joinpath("gone").write_text("")
    assert mirror.fetch(str(inside / "gone"), creates=False).exists()


@pytest.mark.parametrize("path", ["/../../..", "/tmp/..", "/x/../../../etc/passwd", "//etc/..", "/"])
def test_no_path_leads_out_of_the_mirror(mirror: Mirror, path: str) -> None:
    place = mirror.fetch(path, creates=True)
    assert mirror.fetch("/nowhere", creates=True).parent.parent in place.resolve().parents


def test_what_it_says_names_paths_of_the_sandbox_alone(mirror: Mirror, inside: Path) -> None:
    path = str(inside / "src" / "it's a.py")
    place = mirror.fetch(path, creates=False)
    text = f"{place} has changed, as [Errno 2] '{place.parent}/.x.tmp' tells"
    assert mirror.in_sandbox_paths(text, place) == f"{path} has changed, as [Errno 2] '{inside}/src/.x.tmp' tells"


def test_what_is_too_large_or_no_file_is_not_fetched(mirror: Mirror, inside: Path) -> None:
    (inside / "big").write_text("x" * (LIMIT + 1))
    with pytest.raises(ValueError, match=r"big.*too large"):
        mirror.fetch(str(inside / "big"), creates=False)
    assert mirror.fetch(str(inside / "big"), creates=True).exists()
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        mirror.fetch("/dev/null", creates=False)


@pytest.mark.parametrize("name", ["plain", "a;touch x", "$(touch x)", "`touch x`", "a b", "-rf", "it's"])
def test_a_folder_has_no_name_here_that_a_shell_could_read(mirror: Mirror, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    place = mirror.fetch(str(folder))
    assert place.name == "_"
    found = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
    assert found == ["src", "src/a.py", "src/deep"]
    assert mirror.in_sandbox_paths(f"{place}/src", place) == f"{folder}/src"
