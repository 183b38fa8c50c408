"""What the reference has at the paths that it owns, read from an untouched tree before any patch comes near it.

Made    in a sandbox of its own that no policy's code ever runs in: the row's test patch is applied there (or its
        command run, or its files taken as given), and the files that result are read to the host. Kept per instance.
Placed  into a tree with the policy's patch: what is no folder on the way and whatever lies at a path are removed, then
        the reference's bytes are written; what the reference lacks is removed.
Errors  VerifierError when the reference tests can't be made: the row and the image do not fit.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from paddock.errors import VerifierError
from paddock.resources_servers.swe.grading.applying import GIT_APPLY
from paddock.resources_servers.swe.grading.bench import Bench
from paddock.resources_servers.swe.grading.guard import DEFINES_TESTS, TEST_NAME, Guard
from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.grading.pytest_settings import CONFIG_FILES, listed_plugins, read_settings
from paddock.resources_servers.swe.grading.reading import SIGNALS
from paddock.resources_servers.swe.grading.shared import Shared
from paddock.resources_servers.swe.instance import Instance

REMEMBERED = 256
"""Instances whose reference is kept."""
_STARTUP = ("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth")
_CONFIGS_AT_MOST = 200
"""Configuration files of pytest that are read of a tree: those nearest to its root."""
_TEST_PATHS = ("*test*.py", "*.test.*", "*.spec.*")


class File(NamedTuple):
    data: bytes
    mode: int | None
    """Permission bits; None: as a new file has them."""


class Reference(NamedTuple):
    """An instance's own tests and what runs before them, by path below the workdir."""

    tests: dict[str, File | None]
    """None: the reference removes it."""
    startup: dict[str, File]
    """conftest files and the like, of the untouched tree."""
    guard: Guard
    beside: frozenset[str] = frozenset()
    """Test files of the untouched tree."""
    seen: frozenset[bytes] = frozenset()
    """Lines that a policy's tree has at the paths of `tests`, without the space around them."""


class References:
    """References of instances, made once each."""

    def __init__(self, make: Callable[[Instance], Coroutine[Any, Any, Reference]]) -> None:
        self._make = make
        self._made = Shared[Reference](REMEMBERED)

    async def of(self, instance: Instance) -> Reference:
        return await asyncio.shield(self._made.task(digest(instance), lambda: self._make(instance)))

    async def close(self) -> None:
        """What is being made ends."""
        await self._made.close()


def digest(instance: Instance) -> str:
    """A name for everything that an instance says."""
    return blake2b(repr(instance).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def make_reference(bench: Bench, instance: Instance) -> Reference:
    """The reference of an instance, from a fresh sandbox."""
    startup = await _startup(bench)
    configs = await _configs(bench)
    named = _plugins(configs, startup)
    collected = await _collected(bench)
    paths = [path for one in sections(instance.test_patch) for path in _real_names(one.paths)]
    before = {path: await bench.read(bench.below(path)) for path in (*paths, *instance.test_files)}
    tests: dict[str, File | None] = {}
    if instance.test_patch:
        tests |= await _from_patch(bench, instance.test_patch)
    if instance.test_setup:
        placed = await _from_command(bench, instance.test_setup)
        before |= {path: await _committed(bench, path) for path in placed}
        tests |= placed
    tests |= {path: File(data, None) for path, data in instance.test_files.items()}
    if not tests:
        raise VerifierError("the row puts no reference test into the tree", kind="reference_empty", retryable=False)
    below = f"{instance.workdir}/"
    hidden = [path.removeprefix(below) for path in instance.hidden_paths if path.startswith(below)]
    guard = Guard(tests, fix=instance.gold_patch, hidden=hidden, plugins=named, configs=configs, collected=collected)
    shown = [data for path, data in before.items() if data is not None and not _is_below(path, hidden)]
    seen = frozenset(line.strip() for data in shown for line in data.splitlines())
    return Reference(tests, startup, guard, collected or frozenset(), seen)


async def place(bench: Bench, reference: Reference) -> None:
    """Put the reference's files where the policy's patch has been applied."""
    changed = await bench.changes()
    below = f"{bench.workdir}/"
    touched = {one.path.removeprefix(below) for one in changed if one.type != "directory" or one.kind == "removed"}
    written = {path: file for path, file in reference.tests.items() if file is not None}
    written |= {
        path: file for path, file in reference.startup.items() if path in touched and path not in reference.tests
    }
    ways = {str(folder) for path in written for folder in PurePosixPath(path).parents}
    strangers = [path for path in touched if path not in written and _not_theirs(reference, path)]
    gone = sorted({*(touched & ways), *strangers, *reference.tests, *(written.keys() & touched)})
    await bench.remove([bench.below(path) for path in gone])
    for path, file in written.items():
        await bench.write(bench.below(path), file.data, file.mode)


def _not_theirs(reference: Reference, path: str) -> bool:
    """A path that the policy has no say in."""
    return path not in reference.startup and reference.guard.always(path) is not None


async def _collected(bench: Bench) -> frozenset[str] | None:
    """Files that git knows, are named like tests and define some; None where git can't tell."""
    done = await bench.run(("git", "grep", "-l", "-z", "-E", DEFINES_TESTS, "--", *_TEST_PATHS), merge=False)
    if done.killed_by is not None or done.exit_code in SIGNALS:
        raise VerifierError(f"looking for tests: git was killed ({done.exit_code})", kind="step_failed")
    if done.exit_code not in (0, 1):
        return None
    paths = (raw.decode("utf-8", "surrogateescape") for raw in bytes(done.stdout).split(b"\0") if raw)
    return frozenset(path for path in paths if TEST_NAME.match(PurePosixPath(path).name))


async def _startup(bench: Bench) -> dict[str, File]:
    paths = await _find(bench, _STARTUP)
    return {path: File(await bench.read(bench.below(path)) or b"", None) for path in paths}


async def _configs(bench: Bench) -> dict[str, bytes]:
    paths = sorted(await _find(bench, sorted(CONFIG_FILES)), key=lambda path: (path.count("/"), path))
    return {path: await bench.read(bench.below(path)) or b"" for path in paths[:_CONFIGS_AT_MOST]}


async def _find(bench: Bench, patterns: Sequence[str]) -> list[str]:
    """Files of such names, by path below the workdir."""
    names = [word for name in patterns for word in ("-o", "-name", name)][1:]
    listed = await bench.must(
        ("find", ".", "-path", "./.git", "-prune", "-o", "-type", "f", "(", *names, ")", "-printf", "%P\\0"),
        "listing conftest and configuration files",
    )
    return [raw.decode("utf-8", "surrogateescape") for raw in listed.split(b"\0") if raw]


def _plugins(configs: Mapping[str, bytes], startup: Mapping[str, File]) -> frozenset[str]:
    """Modules that the tree's own configuration and conftest files make plugins."""
    listed = [listed_plugins(file.data.decode(errors="replace")) for file in startup.values()]
    at_root = {path: data.decode(errors="replace") for path, data in configs.items() if "/" not in path}
    return frozenset().union(*listed, *(read_settings(path, text).plugins for path, text in at_root.items()))


async def _from_patch(bench: Bench, patch: bytes) -> dict[str, File | None]:
    done = await bench.run((*GIT_APPLY, "-"), stdin=patch if patch.endswith(b"\n") else patch + b"\n")
    if not done.ok:
        said = bytes(done.stdout).decode(errors="replace").strip()[-500:]
        raise VerifierError(
            f"the row's test patch does not apply to its image: {said}", kind="test_patch_fails", retryable=False
        )
    tests: dict[str, File | None] = {}
    for section in sections(patch):
        if re.search(rb"^(new file )?mode 120000", section.body, re.MULTILINE):
            raise VerifierError(f"{section.path}: a reference test that is a symlink", kind="test_patch_fails")
        mode = 0o755 if re.search(rb"^new (file )?mode 100755", section.body, re.MULTILINE) else None
        for path in _real_names(section.paths):
            data = await bench.read(bench.below(path))
            tests[path] = None if data is None else File(data, mode)
    return tests


async def _from_command(bench: Bench, command: str) -> dict[str, File | None]:
    await bench.must(("bash", "-c", command), "the row's command that places its tests")
    status = await bench.must(
        ("git", "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"), "listing the reference tests"
    )
    tests: dict[str, File | None] = {}
    for entry in filter(None, status.split(b"\0")):
        path = entry[3:].decode("utf-8", "surrogateescape")
        data = await bench.read(bench.below(path))
        tests[path] = None if data is None else File(data, None)
    return tests


async def _committed(bench: Bench, path: str) -> bytes | None:
    """A file as git's last commit has it; None where it has none."""
    done = await bench.run(("git", "show", f"HEAD:{path}"), merge=False)
    return bytes(done.stdout) if done.ok else None


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


def _real_names(paths: frozenset[str]) -> list[str]:
    """Names of a git section without their `a/` and `b/`."""
    return sorted(path[2:] for path in paths if path.startswith(("a/", "b/")) and path[2:] in paths) or sorted(paths)
