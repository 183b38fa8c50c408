"""One store for all tests here (`PADDOCK_HOME`, or a folder of the session), and a package index on loopback."""

import asyncio
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from tests.support import distributions

from paddock.errors import InfraError
from paddock.processes.command import CommandResult
from paddock.sandbox.images import ImageStore, LocalImage
from paddock.sandbox.images.build import base_image, python_image
from paddock.sandbox.images.build.inside import run_inside
from paddock.sandbox.images.build.stage import new_stage
from paddock.sandbox.layers import remove_tree
from paddock.sandbox.settings import HOME_VARIABLE, PAYLOAD_ID


class RunInside(Protocol):
    def __call__(self, script: str, image: LocalImage | None = None) -> CommandResult: ...


def silent(_line: str) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="session")
def store() -> Iterator[ImageStore]:
    """A store of our own, which borrows the layers and downloads of `PADDOCK_HOME` where that has them."""
    # Not below pytest's own folder, which the payload's uid may not enter.
    home = Path(tempfile.mkdtemp(prefix="paddock-build-"))
    home.chmod(0o711)
    made = ImageStore(home, payload_id=PAYLOAD_ID)
    if named := os.environ.get(HOME_VARIABLE):
        _borrow(Path(named), made)
    yield made
    remove_tree(home)


def _borrow(lender: Path, store: ImageStore) -> None:
    for name in ("layers", "images"):
        (store.home / name).mkdir(mode=0o711)
    for wheels in (lender / "downloads").glob("wheels-*"):
        shutil.copytree(wheels, store.home / "downloads" / wheels.name)
    for record in ImageStore(lender, payload_id=PAYLOAD_ID).records():
        if record.name.startswith("paddock/"):
            for layer in record.layers:
                if not (store.home / "layers" / layer).is_symlink():
                    (store.home / "layers" / layer).symlink_to(lender / "layers" / layer)
            store.name(record)


def _made_or_skipped(making: Awaitable[LocalImage]) -> LocalImage:
    async def wait() -> LocalImage:
        return await making

    try:
        return asyncio.run(wait())
    except InfraError as error:
        if error.kind in ("packages_unavailable", "no_debian", "runtime_missing"):
            pytest.skip(f"a base image can't be built here: {error.message}")
        raise


@pytest.fixture(scope="session")
def base(store: ImageStore) -> LocalImage:
    return _made_or_skipped(base_image(store, silent))


@pytest.fixture(scope="session")
def python(store: ImageStore, base: LocalImage) -> LocalImage:
    return _made_or_skipped(python_image(store, "3.11", silent))


@pytest.fixture
def inside(store: ImageStore, base: LocalImage) -> RunInside:
    """Run a script in a fresh sandbox; nothing of it is kept."""

    def run(script: str, image: LocalImage | None = None) -> CommandResult:
        image = image or base
        with new_stage(store) as stage:
            return asyncio.run(
                run_inside(
                    stage,
                    image.layers,
                    script,
                    payload_id=store.payload_id,
                    limits=store.limits,
                    env=image.record.env,
                )
            )

    return run


class LocalIndex(NamedTuple):
    """A package index on loopback."""

    url: str
    folder: Path

    def put(self, project: str, file: str, data: bytes, *, digest: str | None = None) -> str:
        """Serve a file; its sha256."""
        found = hashlib.sha256(data).hexdigest()
        page = self.folder / project / "index.html"
        page.parent.mkdir(exist_ok=True)
        (page.parent / file).write_bytes(data)
        with page.open("a") as links:
            links.write(f'<a href="{file}#sha256={digest or found}">{file}</a>\n')
        return found


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalIndex]:
    """An index of our own, which pip's variables name."""
    folder = tmp_path / "simple"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", url)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    yield LocalIndex(url, folder)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def make_sdist() -> Callable[[str, dict[str, str]], bytes]:
    return distributions.make_sdist


@pytest.fixture
def make_wheel() -> Callable[[str, str, dict[str, str]], bytes]:
    return distributions.make_wheel
