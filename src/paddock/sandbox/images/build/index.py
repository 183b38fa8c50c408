"""Package indexes by their simple API (JSON or HTML): which files there are, and their digests. Runs no project's code.

Where   what pip is told on this machine: `index-url` and `extra-index-url` of its configuration or `PIP_*` variables.
Trust   a file without a sha256 that we know or the index states is refused; downloads are kept by digest.
Errors  InfraError: an index that does not answer. RowError: no such project, version or file; another digest.
"""

import asyncio
import hashlib
import json
import re
import ssl
import sys
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import Request, urlopen

from paddock.errors import InfraError, RowError
from paddock.processes.command import run
from paddock.whole_file import write_whole

DEFAULT_INDEX = "https://pypi.org/simple"
SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_PIN = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][\w.-]*)\s*(\[[^]]*\])?\s*==\s*(?P<version>[A-Za-z0-9][\w.!+-]*)\s*(;((?!--hash).)*)?"
    r"(\s*--hash=sha256:[0-9a-f]{64})*\s*",
    re.ASCII,
)
_TIMEOUT_S = 60.0
_TRIES = 3


class IndexFile(NamedTuple):
    """One file of a project."""

    name: str
    url: str
    sha256: str | None


class PipConfig(NamedTuple):
    """What pip is told on this machine, as far as it says where packages are."""

    indexes: list[str]
    cert: str | None

    @classmethod
    async def read(cls) -> "PipConfig":
        done = await run([sys.executable, "-m", "pip", "config", "list"])
        settings: dict[str, str] = {}
        for line in done.output.splitlines() if done.code == 0 else ():
            key, equals, value = line.partition("=")
            if equals:
                section, _, name = key.strip().partition(".")
                # A variable wins over a file, whatever the order of the list.
                if section == ":env:" or name not in settings:
                    settings[name] = value.strip().strip("'\"")
        first = settings.get("index-url") or DEFAULT_INDEX
        return cls([first, *settings.get("extra-index-url", "").split()], settings.get("cert"))


def normalize(name: str) -> str:
    """A project's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def split_pin(pin: str) -> tuple[str, str]:
    """`name==version` apart; it may have hashes."""
    match = _PIN.fullmatch(pin)
    if match is None:
        raise RowError(f"{pin!r} is no exact pin (name==version, with --hash=sha256:HEX or without)", kind="pin")
    return match["name"], match["version"]


class Index:
    """The indexes of one configuration; downloads go to `folder`."""

    def __init__(self, config: PipConfig, folder: Path) -> None:
        self.config = config
        self._folder = folder
        self._tls = ssl.create_default_context(cafile=config.cert)

    async def files(self, project: str) -> list[IndexFile]:
        """All files of a project, of all indexes."""
        pages = [
            await self._get(f"{index.rstrip('/')}/{normalize(project)}/", missing_ok=True)
            for index in self.config.indexes
        ]
        if not any(pages):
            raise RowError(f"no package index here has a project {project!r}", kind="no_such_package")
        return [file for page in pages if page for file in _read(page)]

    async def sdist(self, pin: str, sha256s: Collection[str] = ()) -> Path:
        """The source distribution of a pin, downloaded and checked: one of `sha256s`, or, without them, what the index
        states."""
        project, version = split_pin(pin)
        for sha256 in sha256s:
            for archive in self._folder.glob(f"{sha256}/*"):
                if is_source(archive.name, project, version):
                    return archive
        sources = [file for file in await self.files(project) if is_source(file.name, project, version)]
        if not sources:
            raise RowError(f"{pin}: no package index here has a source distribution of it", kind="no_sdist")
        chosen = next((file for file in sources if file.sha256 is None or file.sha256 in sha256s), sources[0])
        expected = sha256s or {chosen.sha256} - {None}
        if not expected:
            raise RowError(f"{pin}: neither the row nor the index states a sha256", kind="sdist_digest")
        return await self._keep(chosen, expected, pin)

    async def _keep(self, file: IndexFile, sha256s: Collection[str | None], pin: str) -> Path:
        if file.sha256 in sha256s and (path := self._folder / str(file.sha256) / file.name).exists():
            return path
        data = await self._get(file.url)
        assert data is not None
        digest = hashlib.sha256(data.body).hexdigest()
        if digest not in sha256s:
            wanted = " or ".join(sorted(map(str, sha256s)))
            raise RowError(f"{pin}: {file.name} has sha256 {digest}, not {wanted}", kind="sdist_digest")
        path = self._folder / digest / file.name
        path.parent.mkdir(exist_ok=True)
        write_whole(path, data.body)
        return path

    async def _get(self, url: str, *, missing_ok: bool = False) -> "_Page | None":
        for left in reversed(range(_TRIES)):
            try:
                return await asyncio.to_thread(_fetch, url, self._tls)
            except HTTPError as error:
                if missing_ok and error.code in (403, 404, 410):
                    return None
                if left == 0 or error.code < 500:
                    raise InfraError(f"package index: {url}: {error}", kind="index_unavailable") from error
            except URLError as error:
                if missing_ok and isinstance(error.reason, FileNotFoundError):
                    return None
                if left == 0:
                    raise InfraError(f"package index: {url}: {error.reason}", kind="index_unavailable") from error
            except (OSError, HTTPException) as error:
                if left == 0:
                    raise InfraError(f"package index: {url}: {error}", kind="index_unavailable") from error
            await asyncio.sleep(0.5)
        raise AssertionError


class _Page(NamedTuple):
    url: str
    kind: str
    body: bytes


def _fetch(url: str, tls: ssl.SSLContext) -> _Page:
    if urlsplit(url).scheme == "file" and url.endswith("/"):
        url += "index.html"
    request = Request(url, headers={"Accept": _ACCEPT, "User-Agent": "paddock"})  # noqa: S310 - pip's own settings
    with urlopen(request, timeout=_TIMEOUT_S, context=tls) as answer:  # noqa: S310
        return _Page(answer.url, answer.headers.get("Content-Type", ""), answer.read())


def _read(page: _Page) -> Iterator[IndexFile]:
    if "json" in page.kind:
        for file in json.loads(page.body)["files"]:
            yield IndexFile(file["filename"], urljoin(page.url, file["url"]), file.get("hashes", {}).get("sha256"))
        return
    links = _Links()
    links.feed(page.body.decode(errors="replace"))
    for link in links.urls:
        url, fragment = urldefrag(urljoin(page.url, link))
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        yield IndexFile(unquote(urlsplit(url).path.rsplit("/", 1)[-1]), url, digest)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a" and (link := dict(attrs).get("href")):
            self.urls.append(link)


def is_source(file: str, project: str, version: str) -> bool:
    stem = next((file.removesuffix(suffix) for suffix in SUFFIXES if file.endswith(suffix)), "")
    name, dash, its_version = stem.rpartition("-")
    return bool(dash) and normalize(name) == normalize(project) and its_version == version
