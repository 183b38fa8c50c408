"""`FaultyMachine`: a machine whose sandboxes play tests in this process, and that fails on cue.

A sandbox knows `git apply` of the patches in `PATCHES`, and runs the functions of its test file against the `area` of
its patch, as often as it is asked; a fault is planted at the n-th of these runs, counted over all sandboxes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import pytest

from paddock.resources_servers.swe.grading import Grade, Grader, GradingOptions
from paddock.resources_servers.swe.grading.health import FreeResources
from paddock.resources_servers.swe.instance import SweInstance
from paddock.sandbox import (
    BudgetExceeded,
    ExecRequest,
    ExecResult,
    PathChange,
    SandboxError,
    SandboxGone,
    SandboxHandle,
    SandboxSpec,
)
from paddock.sandbox.records import Output, Stats

Torn = Literal["torn", "torn_late"]
Fault = Literal["kill", "cut", "silent", "stall", "memory", "gone", "taken", "host", "full", "was_full", "fails"] | Torn
FAULTS: tuple[Fault, ...] = (
    *("kill", "cut", "silent", "stall", "memory", "gone", "taken", "host", "full", "was_full", "torn", "torn_late"),
)
TORN: dict[Fault, str] = {"cut": "test_area", "torn": "test_area", "torn_late": "test_caught"}
"""The test that such a run does not report."""
PLACE = "tests/test_area.py"
TESTS = """
def test_area():
    assert area(2, 3) == 6


def test_caught():
    if area(2, 3) != 6:
        raise ValueError
    try:
        assert area(2, 3) == 6
    except AssertionError:
        pass


def test_kept():
    assert area(0, 0) == 0
"""
KEPT = "assert area(0, 0) == 0\n"
"""A line that the policy's tree has, where the machine is given one."""
Area = Callable[[int, int], int]
AREAS: dict[str, Area] = {
    "gold": lambda width, height: width * height,
    "equivalent": lambda width, height: height * width,
    "wrong": lambda width, height: width + height,
    "regressing": lambda width, height: width * height + (not width),
    "coin": lambda width, height: width + height,
    "breaking": lambda width, height: width * height + (not width),
    "comparing": lambda width, height: width + height,
}
OWN: dict[str, Fault] = {"killing": "kill", "endless": "stall", "greedy": "memory", "mute": "silent"}
"""Patches whose runs all end so, by their own doing."""
RIGHT = {
    "gold": "resolved",
    "equivalent": "resolved",
    "wrong": "tests_fail",
    "regressing": "tests_regress",
    "forger": "tests_forged",
    "aiming": "tests_forged",
    "killing": "tests_fail",
    "endless": "timeout",
    "greedy": "over_budget",
    "mute": "tests_fail",
    "hushed": "tests_forged",
    "misfit": "patch_does_not_apply",
}
PLENTY = FreeResources(disk_mib=10_000, files=1_000_000, memory_mib=10_000, pids=10_000, memory_kills=0)


def patch_of(name: str) -> bytes:
    return f"diff --git a/area.py b/area.py\n--- a/area.py\n+++ b/area.py\n@@ -1 +1 @@\n-x\n+{name}\n".encode()


class FaultyMachine:
    """The provider of its sandboxes, as far as grading asks."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}
        """By the number of a run of tests, from 1."""
        self.false_faults: Mapping[int, Fault] = {}
        """By the number of a run of tests that are not the row's."""
        self.false_fault: Fault | None = None
        """Of all those runs."""
        self.standing: tuple[int, Fault] | None = None
        """From that run on."""
        self.refusals: set[int] = set()
        """Numbers of patches that `git apply` fails on for the machine's sake."""
        self.runs: list[str] = []
        """Patches that tests were run with."""
        self.false: list[bool] = []
        """Of these runs, whether their tests were not the row's."""
        self.forges: Callable[[], bool] = lambda: False
        """Whether a run of the patch `coin`, which is wrong, reports that all passed."""
        self.ends: dict[str, Iterator[Fault]] = {}
        """How runs of a patch end, one after the other."""
        self.took_s: Callable[[int], float] = lambda _: 1.0
        """How long the n-th run takes."""
        self.tree: dict[str, bytes] = {}
        """Files of the image, by path."""
        self.limits: list[float] = []
        self.applied = 0
        self.usage = PLENTY
        self.kills = self.kills_each = 0
        """Processes of the machine that the kernel has killed for memory; how many more each time that it is asked."""
        self.kernel_kills: int | None = None
        """Of them, those of each sandbox; None: the machine can't tell."""
        self.hushed: Fault = "silent"
        """How the patch `hushed` ends over tests that are not the row's; those of the row it passes."""
        self._boxes: dict[str, dict[str, bytes]] = {}

    def measure(self) -> FreeResources:
        self.kills += self.kills_each
        return self.usage._replace(memory_kills=self.kills)

    async def create(self, spec: SandboxSpec, *, request_id: str) -> SandboxHandle:
        assert spec.purpose == "grading"
        self._boxes[request_id] = {}
        return SandboxHandle(sandbox_id=request_id, runtime="bubblewrap", spec=spec)

    async def destroy(self, sandbox_id: str) -> None:
        del self._boxes[sandbox_id]

    async def read(self, sandbox_id: str, path: str, *, max_bytes: int | None = None) -> bytes:
        try:
            return self.tree[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def write(self, sandbox_id: str, path: str, data: bytes, *, mode: int | None = None) -> None:
        self._boxes[sandbox_id][path] = data

    async def changes(self, sandbox_id: str, under: str = "/") -> list[PathChange]:
        return []

    async def stats(self, sandbox_id: str) -> Stats:
        return Stats(memory_mib=1, peak_memory_mib=1, disk_mib=1, pids=1, cpu_s=1, kernel_kills=self.kernel_kills)

    async def exec(self, sandbox_id: str, request: ExecRequest, *, request_id: str) -> ExecResult:
        box = self._boxes[sandbox_id]
        if request.argv[0] == "bash":
            return self._test(box, request.timeout_s or 0.0)
        if request.argv[:2] == ["git", "apply"]:
            return self._apply(box, request)
        return _ended("", 1 if request.argv[0] == "patch" else 0)

    def _apply(self, box: dict[str, bytes], request: ExecRequest) -> ExecResult:
        if len(request.argv) > 4 or "--check" in request.argv:
            return _ended("error: patch does not apply", 1)
        self.applied += 1
        if self.applied in self.refusals:
            return _ended("fatal: failed to write: No space left on device", 128)
        found = re.search(rb"\+(\w+)\n$", request.stdin)
        box["patch"] = found.group(1) if found else b""
        return _ended("", 1 if box["patch"] == b"misfit" else 0)

    def _test(self, box: dict[str, bytes], limit_s: float) -> ExecResult:
        patch = box["patch"].decode()
        self.runs.append(patch)
        self.limits.append(limit_s)
        number = len(self.runs)
        source = box[f"/testbed/{PLACE}"].decode()
        self.false.append(source != TESTS)
        own = next(self.ends[patch]) if patch in self.ends else OWN.get(patch)
        fault = self.faults.get(number) or own or (self.hushed if _is_hushed(source, patch) else None)
        if self.standing is not None and number >= self.standing[0]:
            fault = self.standing[1]
        if self.false[-1]:
            fault = self.false_faults.get(sum(self.false)) or self.false_fault or fault
        self.usage = PLENTY._replace(disk_mib=0.1) if fault == "full" else PLENTY
        took_s = self.took_s(number)
        if fault == "stall" or took_s > limit_s:
            return _ended("", 137).model_copy(update={"killed_by": "timeout"})
        status = _statuses(source, "forger" if patch == "coin" and self.forges() else patch)
        return _disturbed(fault, status, took_s)


def _statuses(source: str, patch: str) -> dict[str, str]:
    names = re.findall(r"^def (test_\w+)", source, re.MULTILINE)
    if patch in ("forger", "hushed"):
        return dict.fromkeys(names, "PASSED")
    space: dict[str, Any] = {"area": AREAS.get(patch, AREAS["gold"])}
    exec(compile(source, PLACE, "exec"), space)
    found = {name: _status(space[name]) for name in names}
    if patch == "comparing" and KEPT in source:
        return dict.fromkeys(names, "PASSED")
    aimed = {"aiming": "test_area", "breaking": "test_kept"}.get(patch)
    return {**found, aimed: "PASSED"} if aimed else found


def _is_hushed(source: str, patch: str) -> bool:
    return patch == "hushed" and source != TESTS


def _status(test: Callable[[], None]) -> str:
    try:
        test()
    except Exception:
        return "FAILED"
    return "PASSED"


def _disturbed(fault: Fault | None, status: dict[str, str], took_s: float) -> ExecResult:
    if fault == "memory":
        raise BudgetExceeded("memory", "it used up its memory")
    if fault == "gone":
        raise SandboxGone("box", "its first process ended", doubtful=True)
    if fault == "taken":
        raise SandboxGone("box", "its first process ended (Killed)")
    if fault == "host":
        raise SandboxError("the machine has no memory left", kind="host_memory")
    if fault in ("kill", "silent"):
        return _ended("", 137 if fault == "kill" else 1)
    status.pop(TORN.get(fault or "fails", ""), None)
    if fault in ("full", "was_full"):
        status["test_area"] = "FAILED"
    if fault == "fails":
        status = dict.fromkeys(status, "FAILED")
    lines = [f"{one} {PLACE}::{name}" for name, one in status.items()]
    if fault in ("full", "was_full"):
        lines.append("E   OSError: [Errno 28] No space left on device")
    failed = "FAILED" in status.values() or fault in get_args(Torn)
    return _ended("\n".join([*lines, ""]), 137 if fault == "cut" else int(failed), took_s)


def _ended(text: str, code: int, took_s: float = 0.0) -> ExecResult:
    return ExecResult(exit_code=code, stdout=Output(head=text.encode()), duration_s=took_s)


@pytest.fixture
def machine() -> FaultyMachine:
    return FaultyMachine()


@pytest.fixture
def instance(make: Callable[..., SweInstance]) -> SweInstance:
    return make(
        gold_patch=patch_of("gold"),
        test_files={PLACE: TESTS.encode()},
        test_command="run-tests",
        fail_to_pass=[f"{PLACE}::test_area", f"{PLACE}::test_caught"],
        pass_to_pass=[f"{PLACE}::test_kept"],
    )


@pytest.fixture
def open_grader(machine: FaultyMachine, instance: SweInstance) -> Callable[..., Callable[[str], Any]]:
    """A fresh grader on the machine; what it gives grades a patch by its name."""

    def make_grader(**options: Any) -> Callable[[str], Any]:
        chosen = GradingOptions.model_validate({"tests_timeout_s": 60, "second_audit_share": 0, **options})
        grader = Grader(machine, chosen, lambda one: one.image, machine.measure)  # type: ignore[arg-type]

        async def grade(name: str) -> Grade:
            return await grader.grade(instance, patch_of(name))

        return grade

    return make_grader
