"""Debian packages without a Debian installation: resolved, downloaded and checked by an apt that has its own state.

Source  the mirror that this machine's apt uses for Debian; the machine's own package state is neither read nor changed.
Trust   apt checks signatures, by Debian's own keyring alone, and digests. Lists that are unsigned are refused, whatever
        apt's configuration allows; expired ones are unless it says `Acquire::Check-Valid-Until "false";`, which is for
        archives of old suites.
Unpack  files only: no maintainer script runs; documentation, manuals and translations are left out.
Errors  InfraError: no apt or no keyring here (not retried), no such suite on the mirror, no network.
"""

import os
import re
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.errors import InfraError
from paddock.processes.command import run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MERGED = ("bin", "sbin", "lib", "lib64")
"""Links to their namesakes below `usr`."""
LEFT_OUT = (
    "./usr/share/doc",
    "./usr/share/doc-base",
    "./usr/share/man",
    "./usr/share/info",
    "./usr/share/locale",
    "./usr/share/lintian",
    "./usr/share/bug",
    "./usr/share/bash-completion",
    "./usr/share/zsh",
    "./usr/share/zoneinfo/right",
    "./usr/share/zoneinfo/posix",
    "./usr/share/applications",
    "./usr/share/pixmaps",
    "./usr/lib/systemd",
    "./usr/lib/udev",
    "./lib/systemd",
    "./lib/udev",
    "./etc/init.d",
    "./etc/cron.*",
    "./etc/pam.d",
)
KEYRING_PACKAGE = "debian-archive-keyring"
_EXPIRED = "is expired"
_ARCHIVED = (
    '\nIf the mirror is an archive, whose lists never change: `Acquire::Check-Valid-Until "false";` in a file of '
    "/etc/apt/apt.conf.d"
)
_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>(?P<name>[^_ ]+)_\S+) (?P<size>\d+)")
_ELSEWHERE = "; images can also be had from a registry: `paddock images pull`"


class Package(NamedTuple):
    """One package of a closure."""

    name: str
    file: str
    """As the cache names it."""


class Apt:
    """One suite, with its own state below `folder`; packages are kept in `archives`."""

    def __init__(
        self, folder: Path, archives: Path, suite: str, *, mirror: str | None = None, keyring: Path = KEYRING
    ) -> None:
        """`mirror`: its URL; None: this machine's. `keyring`: what may have signed its lists."""
        self.suite = suite
        self._mirror = mirror
        self._keyring = keyring
        self._folder = folder
        self._archives = archives

    async def start(self) -> None:
        """Read the suite's lists."""
        self._prepare(self._mirror or await _mirror())
        await self._apt("update", "-qq")

    def _prepare(self, mirror: str) -> None:
        if not self._keyring.is_file():
            raise InfraError(
                f"there is no {self._keyring}, by which Debian's lists are checked: apt-get install {KEYRING_PACKAGE}"
                f"{_ELSEWHERE}",
                kind="keyring_missing",
                retryable=False,
            )
        for name in ("lists/partial", "cache", "state"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._archives / "partial").mkdir(exist_ok=True)
        (self._folder / "status").touch()
        (self._folder / "sources.list").write_text(f"deb [signed-by={self._keyring}] {mirror} {self.suite} main\n")

    async def closure(self, names: Sequence[str], *, without: Collection[str]) -> list[Package]:
        """The packages and all that they depend on, but for those of `without`."""
        lines = (await self._apt("install", "-y", "-qq", "--print-uris", *names)).splitlines()
        packages = [Package(match["name"], match["file"]) for line in lines if (match := _URI.match(line))]
        return [package for package in packages if package.name not in without]

    async def fetch(self, packages: Sequence[Package]) -> list[Path]:
        """Download what the cache lacks."""
        missing = [package for package in packages if not (self._archives / package.file).exists()]
        if missing:
            names = [_pinned(package) for package in missing]
            await self._apt("download", "-qq", *names, cwd=self._archives / "partial")
            for package in missing:
                (self._archives / "partial" / package.file).replace(self._archives / package.file)
        return [self._archives / package.file for package in packages]

    async def _apt(self, *words: str, cwd: Path | None = None) -> str:
        options = {
            "Dir::State": self._folder / "state",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "Dir::Cache::archives": self._folder / "cache",
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "1",
        }
        flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        done = await run(["apt-get", *flags, *words], cwd=cwd)
        if done.code:
            hint = _ARCHIVED if _EXPIRED in done.output else ""
            raise InfraError(
                f"apt-get {words[0]} ({self.suite}) failed:\n{done.tail}{hint}", kind="packages_unavailable"
            )
        return done.output


def _pinned(package: Package) -> str:
    version = package.file.split("_")[1].replace("%3a", ":")
    return f"{package.name}={version}"


async def _mirror() -> str:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise InfraError(
            f"building an image needs apt-get and dpkg-deb, which this machine lacks{_ELSEWHERE}",
            kind="no_debian",
            retryable=False,
        )
    done = await run(["apt-get", "indextargets", "--format", "$(CREATED_BY) $(REPO_URI)"])
    mirrors = [line.split()[1] for line in done.output.splitlines() if line.startswith("Packages ")]
    for mirror in mirrors:
        if mirror.rstrip("/").endswith("/debian"):
            return mirror
    raise InfraError(
        f"this machine's apt has no Debian mirror (it has {sorted(set(mirrors))}){_ELSEWHERE}",
        kind="no_debian",
        retryable=False,
    )


async def unpack(archives: Sequence[Path], tree: Path) -> None:
    """Lay packages into `tree`, whose `bin`, `sbin`, `lib` and `lib64` are links into `usr`."""
    for name in MERGED:
        (tree / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (tree / name).is_symlink():
            (tree / name).symlink_to(f"usr/{name}")
    excludes = [f"--exclude={pattern}" for pattern in LEFT_OUT]
    tar = ["tar", "-x", "-C", str(tree), "--keep-directory-symlink", "--no-same-owner", "--no-same-permissions"]
    script = 'for deb in "$@"; do dpkg-deb --fsys-tarfile "$deb" | "${tar[@]}" || exit 1; done'
    quoted = " ".join(f"'{word}'" for word in [*tar, *excludes])
    done = await run(["bash", "-c", f"set -o pipefail; umask 022; tar=({quoted}); {script}", "unpack", *archives])
    if done.code:
        raise InfraError(f"packages could not be unpacked:\n{done.tail}", kind="unpack_failed")


def without_copies(tree: Path, below: Sequence[Path]) -> None:
    """Remove from a layer every file that a layer below has at the same path: the lower one's libraries stay."""
    for folder, _names, files in os.walk(tree):
        for name in files:
            path = Path(folder, name)
            relative = path.relative_to(tree)
            if any(os.path.lexists(layer / relative) for layer in below):
                path.unlink()
