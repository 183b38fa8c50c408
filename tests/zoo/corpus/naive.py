"""A grader that trusts what a run of the row's command says: each cheat must fool it, or it is none.

Run     the patch by `git apply`, what the row's script installs, the hidden tests in their places, the row's command.
Trust   swebench's own functions on the output; or, of a cheat that bends it alone, the exit status.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath

from tests.zoo.corpus.cheats import Cheat, handed_in
from tests.zoo.projects import Project

from paddock.resources_servers.swe.grading.run_results import GradingRun, official_view
from paddock.resources_servers.swe.grading.sandbox import open_grading_sandbox
from paddock.resources_servers.swe.grading.script import read_script
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import Provider, SandboxLimits

LIMITS = SandboxLimits(memory_mib=1024, pids=512, disk_mib=1024)
TIMEOUT_S = 60.0
TRIES = 24
"""Runs, at most, of a cheat that acts by chance."""
_NAME = "test_other_numbers"
_FUNCTIONS = """def test_one():
    assert sum([1, 2]) == 3


def test_other():
    assert sum([1, 2]) == 4
"""
_METHODS = """import unittest


class OtherTests(unittest.TestCase):
    def test_one(self):
        self.assertEqual(sum([1, 2]), 3)

    def test_other(self):
        self.assertEqual(sum([1, 2]), 4)
"""


async def complaint(provider: Provider, instance: SweInstance, cheat: Cheat, repository: Path) -> str | None:
    """How the last of the cheat's runs did not fool the grader; None: one did."""
    said = ""
    for nth in range(TRIES if cheat.chance else 1):
        patch = handed_in(cheat, repository)
        with one_more_device() if nth % 2 else nullcontext():
            run = await run_plainly(provider, instance, cheat.project, patch, stranger=cheat.stranger)
        status = official_view(instance, run)
        if status == "RESOLVED_FULL" or (cheat.status and run.exit_code == 0):
            return None
        said = f"{status}, exit status {run.exit_code}: {run.output[-4000:]}"
    return said


@contextmanager
def one_more_device() -> Iterator[None]:
    """A file system is mounted, so that the next one's device has another number: the kernel gives the lowest that is
    free, on a quiet machine the same each time."""
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /mnt && echo && exec sleep 300"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline()
            yield
        finally:
            holder.kill()


async def run_plainly(
    provider: Provider, instance: SweInstance, project: Project, patch: bytes, *, stranger: bool = False
) -> GradingRun:
    """One run of the row's command over a patch; `stranger`: with tests among the row's that are not, one of which
    fails."""
    script = read_script(instance)
    tests = dict(project.tests)
    lines = list(script.tests)
    if stranger:
        path, word, text = _stranger(project)
        tests[path] = text
        lines = [line + f" {word}" if line == project.keys["command"] else line for line in lines]
    async with open_grading_sandbox(provider, instance, instance.image, LIMITS) as bench:
        await bench.must(("git", "apply", "-"), "the patch", stdin=patch)
        if script.install is not None:
            await bench.run(("bash", "-c", script.install), timeout_s=TIMEOUT_S)
        for path, text in tests.items():
            await bench.write(bench.below(path), text.encode())
        done = await bench.run(("bash", "-c", script.test_program(tuple(lines))), timeout_s=TIMEOUT_S)
    return GradingRun(bytes(done.stdout).decode(errors="replace"), done.exit_code, done.killed_by)


def _stranger(project: Project) -> tuple[str, str, str]:
    """A path below the tree, the word that names it on the command, and the file's text."""
    folder = PurePosixPath(next(iter(project.tests))).parent
    path = str(folder / f"{_NAME}.py")
    if project.name in ("unittest", "django"):
        return path, f"{folder.name}.{_NAME}", _METHODS
    return path, path, _FUNCTIONS
