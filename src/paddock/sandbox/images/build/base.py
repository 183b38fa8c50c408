"""The base layer: a Debian userland with git and the usual text tools, no Python, no package manager.

Name    `paddock/base:<suite>`; kept while its recipe (`KEY`) stays the same, whatever the mirror has by now.
Inside  the locale is C.UTF-8, the time zone UTC; git has an identity and trusts every folder; HOME is `/root`, which
        belongs to the payload like everything else.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from paddock.errors import InfraError
from paddock.sandbox.images.build.debian import MERGED, Apt, unpack
from paddock.sandbox.images.build.inside import run_inside
from paddock.sandbox.images.build.stage import cache, name_lock, new_stage
from paddock.sandbox.images.store import ImageStore, LocalImage

Progress = Callable[[str], None]

SUITE = "bookworm"
NAME = f"paddock/base:{SUITE}"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "TZ": "UTC"}
PACKAGES = [
    "base-files",
    "bash",
    "bsdextrautils",
    "bzip2",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "findutils",
    "gawk",
    "git",
    "grep",
    "gzip",
    "hostname",
    "less",
    "libc-bin",
    "libgomp1",
    "libstdc++6",
    "make",
    "mawk",
    "ncurses-base",
    "ncurses-bin",
    "netbase",
    "patch",
    "perl-base",
    "procps",
    "ripgrep",
    "sed",
    "tar",
    "tzdata",
    "util-linux",
    "xz-utils",
]
WITHOUT = frozenset(
    [
        "base-passwd",
        "ca-certificates",
        "debconf",
        "dpkg",
        "gcc-12-base",
        "git-man",
        "init-system-helpers",
        "libaudit-common",
        "libdebconfclient0",
        "liberror-perl",
        "libfile-find-rule-perl",
        "libgdbm-compat4",
        "libgdbm6",
        "libnumber-compare-perl",
        "libperl5.36",
        "libtext-glob-perl",
        "mailcap",
        "mime-support",
        "openssl",
        "perl",
        "perl-modules-5.36",
        "usrmerge",
        "util-linux-extra",
    ]
)
"""Parts of the closure that nothing in an image runs: Perl's library, the package manager, manuals."""
_FOLDERS = [
    "dev",
    "etc",
    "home",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr/local/bin",
    "usr/local/lib",
    "var/cache",
    "var/lib",
    "var/log",
]
_FILES = {
    "etc/group": "root:x:0:\ntty:x:5:\nstaff:x:50:\nagent:x:{payload}:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
    "etc/nsswitch.conf": (
        "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"
    ),
    "etc/resolv.conf": "",
    "etc/timezone": "Etc/UTC\n",
    "etc/gitconfig": (
        "[user]\n\tname = agent\n\temail = agent@localhost\n[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n"
        "[advice]\n\tdetachedHead = false\n"
    ),
    "etc/passwd": (
        "root:x:0:0:root:/root:/bin/bash\n"
        "agent:x:{payload}:{payload}:agent:/root:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
}
_LINKS = {
    "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
    "etc/mtab": "../proc/self/mounts",
    "usr/bin/awk": "gawk",
    "usr/bin/which": "which.debianutils",
    "usr/bin/pager": "less",
    "var/run": "/run",
    "var/tmp": "/tmp",  # noqa: S108 - the image's
}


def digest(*parts: object) -> str:
    """Names what something is made of."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


KEY = digest(1, SUITE, PACKAGES, sorted(WITHOUT), _FILES, _LINKS)


def current(store: ImageStore, name: str, key: str) -> LocalImage | None:
    """The image of that name, where it was made of the same."""
    if store.has(name) and (image := store.get(name)).record.origin.get("key") == key:
        return image
    return None


async def base_image(store: ImageStore, progress: Progress) -> LocalImage:
    """Debian's userland, built once per store."""
    async with name_lock(store, NAME):
        return current(store, NAME, KEY) or await _build(store, progress)


async def _build(store: ImageStore, progress: Progress) -> LocalImage:
    progress(f"{NAME}: packages")
    with new_stage(store) as stage:
        apt = Apt(stage.folder("apt"), cache(store, "debian"), SUITE)
        await apt.start()
        packages = await apt.closure(PACKAGES, without=WITHOUT)
        archives = await apt.fetch(packages)
        progress(f"{NAME}: {len(archives)} packages are laid out")
        await unpack(archives, stage.tree)
        furnish(stage.tree, store.payload_id)
        own_tree(store, stage.tree)
        done = await run_inside(stage, [], "ldconfig", payload_id=store.payload_id, limits=store.limits, env=ENV)
        if done.code:
            raise InfraError(f"{NAME}: ldconfig failed:\n{done.tail}", kind="base_image", retryable=False)
        return store.add(
            NAME,
            mover(stage.tree),
            env=ENV,
            workdir="/",
            origin={"key": KEY, "suite": SUITE, "packages": [package.file for package in packages]},
        )


def furnish(tree: Path, payload: int) -> None:
    """What the packages' scripts would have done, as far as an image needs it."""
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name).chmod(0o1777 if name == "tmp" else 0o755)
    for name, text in _FILES.items():
        (tree / name).write_text(text.replace("{payload}", str(payload)))
        (tree / name).chmod(0o644)
    for name, target in _LINKS.items():
        link = tree / name
        if link.is_dir() and not link.is_symlink():
            link.rmdir()
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def own_tree(store: ImageStore, tree: Path) -> None:
    """Give a whole tree to the payload's uid."""
    for folder, names, files in os.walk(tree):
        store.own([Path(folder), *(Path(folder, name) for name in (*names, *files))])


def without_merged(tree: Path) -> None:
    """Remove the links that every layer but the lowest only needs while packages are laid out."""
    for name in MERGED:
        (tree / name).unlink(missing_ok=True)


def mover(tree: Path) -> Callable[[Path], None]:
    """Fills a layer of the store with a finished tree of the same file system."""

    def fill(layer: Path) -> None:
        tree.rename(layer)

    return fill
