"""Claims about locks of programs from npm: a real npm installs what the lock says, checked, or nothing at all."""

import base64
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from paddock.errors import InfraError
from paddock.harness import Program
from paddock.harness.programs.catalogue import load_catalogue
from paddock.harness.programs.npm import read_lock
from paddock.harness.programs.store import ProgramStore

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on PATH: apt-get install npm")
LOCKED = sorted(name for name, program in load_catalogue().programs.items() if program.source == "npm" and program.lock)


class LockedPackage:
    """One version of a package: its archive, and what a registry says of it."""

    def __init__(self, name: str, version: str, needs: dict[str, str] | None = None) -> None:
        self.name, self.version = name, version
        self.described = {"name": name, "version": version, "dependencies": needs or {}, "bin": {"say": "say"}}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for path, content in (
                ("package.json", json.dumps(self.described)),
                ("say", f"#!/bin/sh\necho {version}\n"),
            ):
                member = tarfile.TarInfo(f"package/{path}")
                member.size, member.mode = len(content), 0o755
                tar.addfile(member, io.BytesIO(content.encode()))
        self.archive = buffer.getvalue()

    @property
    def integrity(self) -> str:
        return "sha512-" + base64.b64encode(hashlib.sha512(self.archive).digest()).decode()

    @property
    def path(self) -> str:
        return f"/{self.name}/-/{self.name}-{self.version}.tgz"


@contextmanager
def registry(*packages: LockedPackage) -> Iterator[str]:
    """Its URL."""

    class RegistryHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = next((one.archive for one in packages if one.path == self.path), None)
            versions = {
                one.version: {**one.described, "dist": {"tarball": f"{url}{one.path}", "integrity": one.integrity}}
                for one in packages
                if f"/{one.name}" == self.path
            }
            if versions:
                body = json.dumps(
                    {"name": self.path[1:], "versions": versions, "dist-tags": {"latest": max(versions)}}
                ).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), RegistryHandler)
    url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()


SAY, OLD, NEW = (
    LockedPackage("say", "1.0.0", {"tell": "^1.0.0"}),
    LockedPackage("tell", "1.0.0"),
    LockedPackage("tell", "1.5.0"),
)


def program(folder: Path, version: str = "1.0.0") -> Program:
    """One whose lock is of version 1.0.0."""
    entries = {
        "": {"dependencies": {"say": "1.0.0"}},
        "node_modules/say": {"version": "1.0.0", "integrity": SAY.integrity, "dependencies": {"tell": "^1.0.0"}},
        "node_modules/tell": {"version": "1.0.0", "integrity": OLD.integrity},
    }
    lock = folder / "lock.json"
    lock.write_text(json.dumps({"lockfileVersion": 3, "requires": True, "packages": entries}))
    return Program(
        name="fake",
        version=version,
        where="inside",
        source="npm",
        packages=("say@{version}",),
        lock=lock,
        commands={"say": "node_modules/say/say"},
        licence="MIT",
    )


def store_of(folder: Path, url: str) -> ProgramStore:
    settings = {"npm_config_registry": url, "npm_config_cache": str(folder / "cache"), "HOME": str(folder)}
    return ProgramStore(folder / "home", environ={"PATH": os.environ["PATH"], **settings})


def version_of(folder: Path, name: str) -> str:
    version: str = json.loads((folder / "node_modules" / name / "package.json").read_text())["version"]
    return version


@pytest.mark.slow
@needs_npm
def test_what_comes_beside_is_of_the_version_that_the_lock_says(tmp_path: Path) -> None:
    with registry(SAY, OLD, NEW) as url:
        made = store_of(tmp_path, url).install(program(tmp_path))
    assert version_of(made.folder, "tell") == "1.0.0"


def test_a_lock_without_what_this_processor_runs_is_none(tmp_path: Path) -> None:
    wanted = program(tmp_path)
    assert read_lock(wanted) is not None
    assert wanted.lock is not None
    lock = json.loads(wanted.lock.read_text())
    lock["packages"]["node_modules/say"]["cpu"] = ["pdp11"]
    wanted.lock.write_text(json.dumps(lock))
    assert read_lock(wanted) is None


@pytest.mark.slow
@needs_npm
@pytest.mark.parametrize("changed", [pytest.param("say", marks=pytest.mark.slow), "tell"])
def test_an_archive_with_another_hash_is_not_installed(changed: str, tmp_path: Path) -> None:
    other = [LockedPackage("say", "1.0.0", {"tell": "^1.0.0", "more": "1"}), OLD, LockedPackage("more", "1.0.0")]
    packages = (
        other
        if changed == "say"
        else [SAY, LockedPackage("tell", "1.0.0", {"more": "1"}), LockedPackage("more", "1.0.0")]
    )
    with registry(*packages) as url:
        store = store_of(tmp_path, url)
        with pytest.raises(InfraError, match=r"npm ci say@1\.0\.0 failed(.|\n)*(EINTEGRITY|integrity)") as caught:
            store.install(program(tmp_path))
    assert caught.value.kind == "install_failed"
    assert store.installed() == []
    assert not (store.root / "fake-1.0.0").exists()


@pytest.mark.slow
@needs_npm
def test_a_version_without_a_lock_comes_as_the_registry_has_it_and_that_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    with registry(SAY, LockedPackage("say", "2.0.0", {"tell": "^1.0.0"}), OLD, NEW) as url:
        made = store_of(tmp_path, url).install(program(tmp_path, "2.0.0"), said.append)
    assert version_of(made.folder, "tell") == "1.5.0"
    assert any("no lock for this version here" in line for line in said)


@pytest.mark.parametrize("name", LOCKED)
def test_a_pinned_version_has_a_lock_with_a_hash_of_every_package(name: str) -> None:
    pinned = load_catalogue().programs[name]
    assert pinned.lock is not None
    text = pinned.lock.read_text()
    if platform.machine() == "x86_64":
        assert read_lock(pinned) == text, "run scripts/lock.py"
    assert "resolved" not in text
    packages = json.loads(text)["packages"]
    assert all(one["integrity"].startswith("sha512-") for path, one in packages.items() if path)


def test_every_program_from_npm_has_a_lock() -> None:
    assert [name for name, one in load_catalogue().programs.items() if one.source == "npm"] == LOCKED
