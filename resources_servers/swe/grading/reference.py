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
from paddock.resources_servers.swe.grading.apply import GIT_APPLY
from paddock.resources_servers.swe.grading.guard import DEFINES_TESTS, TEST_NAME, Guard
from paddock.resources_servers.swe.grading.patches import sections
from paddock.resources_servers.swe.grading.pytest_settings import CONFIG_FILES, listed_plugins, read_settings
from paddock.resources_servers.swe.grading.run_results import SIGNALS
from paddock.resources_servers.swe.grading.sandbox import GradingSandbox
from paddock.resources_servers.swe.grading.shared import SharedTasks
from paddock.resources_servers.swe.instance import SweInstance

CACHE_SIZE = 256
"""Instances whose reference is kept."""
_STARTUP = ("conftest.py", "sitecustomize.py", "usercustomize.py", "*.pth")
_CONFIGS_AT_MOST = 200
"""Configuration files of pytest that are read of a tree: those nearest to its root."""
_TEST_PATHS = ("*test*.py", "*.test.*", "*.spec.*")


class ReferenceFile(NamedTuple):
    data: bytes
    mode: int | None
    """Permission bits; None: as a new file has them."""


class ReferenceTests(NamedTuple):
    """An instance's own tests and what runs before them, by path below the workdir."""

    tests: dict[str, ReferenceFile | None]
    """None: the reference removes it."""
    startup: dict[str, ReferenceFile]
    """conftest files and the like, of the untouched tree."""
    guard: Guard
    beside: frozenset[str] = frozenset()
    """Test files of the untouched tree."""
    seen: frozenset[bytes] = frozenset()
    """Lines that a policy's tree has at the paths of `tests`, without the space around them."""


class ReferenceCache:
    """The reference tests of instances, made once each."""

    def __init__(self, make: Callable[[SweInstance], Coroutine[Any, Any, ReferenceTests]]) -> None:
        self._make = make
        self._references = SharedTasks[ReferenceTests](CACHE_SIZE)

    async def of(self, instance: SweInstance) -> ReferenceTests:
        return await asyncio.shield(self._references.task(digest(instance), lambda: self._make(instance)))

    async def close(self) -> None:
        """Cancel what is being made."""
        await self._references.close()


def digest(instance: SweInstance) -> str:
    """Return a digest of everything that an instance says."""
    return blake2b(repr(instance).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


async def make_reference(sandbox: GradingSandbox, instance: SweInstance) -> ReferenceTests:
    """Read an instance's reference tests in a fresh sandbox; VerifierError where they can't be made."""
    startup = await _startup(sandbox)
    configs = await _configs(sandbox)
    named = _plugins(configs, startup)
    collected = await _collected(sandbox)
    paths = [path for section in sections(instance.test_patch) for path in _real_names(section.paths)]
    kept = instance.reference_paths
    before = {path: await sandbox.read(sandbox.below(path)) for path in (*paths, *instance.test_files, *kept)}
    tests: dict[str, ReferenceFile | None] = {
        path: None if (data := before[path]) is None else ReferenceFile(data, None) for path in kept
    }
    if instance.test_patch:
        tests |= await _from_patch(sandbox, instance.test_patch)
    if instance.test_setup:
        placed = await _from_command(sandbox, instance.test_setup)
        before |= {path: await _committed_bytes(sandbox, path) for path in placed}
        tests |= placed
    tests |= {path: ReferenceFile(data, None) for path, data in instance.test_files.items()}
    if not tests:
        raise VerifierError("the row puts no reference test into the tree", kind="reference_empty", retryable=False)
    below = f"{instance.workdir}/"
    hidden = [path.removeprefix(below) for path in instance.hidden_paths if path.startswith(below)]
    guard = Guard(tests, fix=instance.gold_patch, hidden=hidden, plugins=named, configs=configs, collected=collected)
    shown = [data for path, data in before.items() if data is not None and not _is_below(path, hidden)]
    seen = frozenset(line.strip() for data in shown for line in data.splitlines())
    return ReferenceTests(tests, startup, guard, collected or frozenset(), seen)


async def place_reference(sandbox: GradingSandbox, reference: ReferenceTests) -> None:
    """Put the reference's files into a tree where the policy's patch has been applied."""
    changed = await sandbox.changes()
    below = f"{sandbox.workdir}/"
    touched = {item.path.removeprefix(below) for item in changed if item.type != "directory" or item.kind == "removed"}
    written = {path: file for path, file in reference.tests.items() if file is not None}
    written |= {
        path: file for path, file in reference.startup.items() if path in touched and path not in reference.tests
    }
    ways = {str(folder) for path in written for folder in PurePosixPath(path).parents}
    strangers = [path for path in touched if path not in written and _is_reference_only(reference, path)]
    gone = sorted({*(touched & ways), *strangers, *reference.tests, *(written.keys() & touched)})
    await sandbox.remove([sandbox.below(path) for path in gone])
    for path, file in written.items():
        await sandbox.write(sandbox.below(path), file.data, file.mode)


def _is_reference_only(reference: ReferenceTests, path: str) -> bool:
    """Say whether the policy has no say in a path."""
    return path not in reference.startup and reference.guard.always_owned(path) is not None


async def _collected(sandbox: GradingSandbox) -> frozenset[str] | None:
    """Return the files that git knows, are named like tests and define some; None where git can't say."""
    done = await sandbox.run(("git", "grep", "-l", "-z", "-E", DEFINES_TESTS, "--", *_TEST_PATHS), merge=False)
    if done.killed_by is not None or done.exit_code in SIGNALS:
        raise VerifierError(f"looking for tests: git was killed ({done.exit_code})", kind="step_failed")
    if done.exit_code not in (0, 1):
        return None
    paths = (raw.decode("utf-8", "surrogateescape") for raw in bytes(done.stdout).split(b"\0") if raw)
    return frozenset(path for path in paths if TEST_NAME.match(PurePosixPath(path).name))


async def _startup(sandbox: GradingSandbox) -> dict[str, ReferenceFile]:
    paths = await _find(sandbox, _STARTUP)
    return {path: ReferenceFile(await sandbox.read(sandbox.below(path)) or b"", None) for path in paths}


async def _configs(sandbox: GradingSandbox) -> dict[str, bytes]:
    paths = sorted(await _find(sandbox, sorted(CONFIG_FILES)), key=lambda path: (path.count("/"), path))
    return {path: await sandbox.read(sandbox.below(path)) or b"" for path in paths[:_CONFIGS_AT_MOST]}


async def _find(sandbox: GradingSandbox, patterns: Sequence[str]) -> list[str]:
    """Find files by patterns of their names; paths below the workdir."""
    names = [word for name in patterns for word in ("-o", "-name", name)][1:]
    listed = await sandbox.must(
        ("find", ".", "-path", "./.git", "-prune", "-o", "-type", "f", "(", *names, ")", "-printf", "%P\\0"),
        "listing conftest and configuration files",
    )
    return [raw.decode("utf-8", "surrogateescape") for raw in listed.split(b"\0") if raw]


def _plugins(configs: Mapping[str, bytes], startup: Mapping[str, ReferenceFile]) -> frozenset[str]:
    """Return the modules that the tree's own configuration and conftest files make plugins."""
    listed = [listed_plugins(file.data.decode(errors="replace")) for file in startup.values()]
    at_root = {path: data.decode(errors="replace") for path, data in configs.items() if "/" not in path}
    return frozenset().union(*listed, *(read_settings(path, text).plugins for path, text in at_root.items()))


async def _from_patch(sandbox: GradingSandbox, patch: bytes) -> dict[str, ReferenceFile | None]:
    done = await sandbox.run((*GIT_APPLY, "-"), stdin=patch if patch.endswith(b"\n") else patch + b"\n")
    if not done.ok:
        output = bytes(done.stdout).decode(errors="replace").strip()[-500:]
        raise VerifierError(
            f"the row's test patch does not apply to its image: {output}", kind="test_patch_fails", retryable=False
        )
    tests: dict[str, ReferenceFile | None] = {}
    for section in sections(patch):
        if re.search(rb"^(new file )?mode 120000", section.body, re.MULTILINE):
            raise VerifierError(f"{section.path}: a reference test that is a symlink", kind="test_patch_fails")
        mode = 0o755 if re.search(rb"^new (file )?mode 100755", section.body, re.MULTILINE) else None
        for path in _real_names(section.paths):
            data = await sandbox.read(sandbox.below(path))
            tests[path] = None if data is None else ReferenceFile(data, mode)
    return tests


async def _from_command(sandbox: GradingSandbox, command: str) -> dict[str, ReferenceFile | None]:
    await sandbox.must(("bash", "-c", command), "the row's command that places its tests")
    status = await sandbox.must(
        ("git", "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"), "listing the reference tests"
    )
    tests: dict[str, ReferenceFile | None] = {}
    for entry in filter(None, status.split(b"\0")):
        path = entry[3:].decode("utf-8", "surrogateescape")
        data = await sandbox.read(sandbox.below(path))
        tests[path] = None if data is None else ReferenceFile(data, None)
    return tests


async def _committed_bytes(sandbox: GradingSandbox, path: str) -> bytes | None:
    """Read a file as git's last commit has it; None where it has none."""
    done = await sandbox.run(("git", "show", f"HEAD:{path}"), merge=False)
    return bytes(done.stdout) if done.ok else None


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)


def _real_names(paths: frozenset[str]) -> list[str]:
    """Return the names of a git section without their `a/` and `b/`."""
    return sorted(path[2:] for path in paths if path.startswith(("a/", "b/")) and path[2:] in paths) or sorted(paths)
