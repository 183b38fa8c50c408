"""Claims about grading on a machine that fails: no wrong verdict while it does, the right one afterwards."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest
from tests.resources_servers.swe.faults.conftest import FAULTS, RIGHT, Fault, Machine, Torn

from paddock.errors import InfraError, PaddockError, VerifierError

Open = Callable[..., Callable[[str], Any]]
PATCHES = ("gold", "equivalent", "wrong", "regressing", "forger", "aiming", "killing", "misfit")
RUNS = 10
"""More than any of these patches needs."""


async def reason_of(grading: Awaitable[Any]) -> str:
    try:
        return str((await grading).reason)
    except PaddockError as error:
        assert error.outcome in ("infra", "verifier"), error
        assert error.retryable, error
        return error.outcome


@pytest.mark.parametrize("patch", RIGHT)
async def test_on_a_machine_that_is_well_each_patch_gets_its_verdict(open_grader: Open, patch: str) -> None:
    grade = open_grader()
    assert [(await grade(patch)).reason for _ in range(2)] == [RIGHT[patch]] * 2


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("patch", PATCHES)
async def test_one_fault_at_any_run_makes_no_wrong_verdict(
    machine: Machine, open_grader: Open, patch: str, fault: Fault
) -> None:
    for number in range(1, RUNS):
        grade = open_grader()
        machine.faults = {len(machine.runs) + number: fault}
        assert await reason_of(grade(patch)) in (RIGHT[patch], "infra", "verifier"), number
        machine.faults = {}
        assert await reason_of(grade(patch)) == RIGHT[patch], number


@pytest.mark.parametrize(
    ("patch", "fault"),
    [
        (patch, fault)
        for patch, fault in itertools.product(PATCHES, FAULTS)
        if fault not in get_args(Torn) and (patch, fault) != ("aiming", "was_full")  # whose it is, nothing tells
    ],
)
async def test_a_fault_that_stays_makes_no_wrong_verdict(
    machine: Machine, open_grader: Open, patch: str, fault: Fault
) -> None:
    for number in range(1, RUNS):
        grade = open_grader()
        machine.standing = (len(machine.runs) + number, fault)
        told = await reason_of(grade(patch))
        assert told in (RIGHT[patch], "infra", "verifier"), number
        machine.standing = None
        assert await reason_of(grade(patch)) == RIGHT[patch], number


@pytest.mark.parametrize("fault", ["kill", "gone"])
@pytest.mark.parametrize("patch", ["gold", "equivalent", "wrong"])
async def test_two_ends_of_one_patchs_runs_make_no_wrong_verdict(
    machine: Machine, open_grader: Open, patch: str, fault: Fault
) -> None:
    machine.faults = {1: fault, 2: fault}
    assert (await open_grader()(patch)).reason == RIGHT[patch]


async def test_two_calibrations_that_lie_alike_cost_an_honest_patch_nothing(
    machine: Machine, open_grader: Open
) -> None:
    machine.faults = {2: "fails", 3: "fails"}  # the patch's own run is the first
    assert (await open_grader()("equivalent")).reason == "resolved"
    assert machine.runs[:6] == ["equivalent", "gold", "gold", "equivalent", "equivalent", "gold"]


@pytest.mark.parametrize("faults", [("torn", "torn_late"), ("torn_late", "fails"), ("fails", "torn")])
@pytest.mark.parametrize("patch", ["equivalent", "forger", "aiming"])
async def test_two_calibrations_that_differ_teach_nothing(
    machine: Machine, open_grader: Open, patch: str, faults: tuple[Fault, Fault]
) -> None:
    grade = open_grader()
    machine.faults = dict(enumerate(faults, start=2))
    assert [await reason_of(grade(patch)) for _ in range(2)] == [RIGHT[patch]] * 2
    assert machine.runs[:8] == [patch, *["gold"] * 6, patch]  # two alike, and two over tests made false bluntly


async def test_calibrations_that_never_agree_are_a_verifiers_failure(machine: Machine, open_grader: Open) -> None:
    machine.faults = {2: "torn", 3: "torn_late", 4: "fails"}
    grade = open_grader(runs_at_most=3)
    with pytest.raises(VerifierError) as failure:
        await grade("forger")
    assert failure.value.kind == "audit_not_calibrated"
    assert (await grade("forger")).reason == "tests_bent"


async def test_an_audit_that_does_not_report_what_it_asks_acquits_nobody(machine: Machine, open_grader: Open) -> None:
    machine.faults = {6: "torn"}
    assert (await open_grader()("aiming")).reason == "tests_bent"
    assert machine.runs == ["aiming", *["gold"] * 4, *["aiming"] * 3, "gold"]


@pytest.mark.parametrize("end", ["silent", "kill", "gone", "memory", "stall"])
async def test_silence_over_false_tests_buys_nothing(machine: Machine, open_grader: Open, end: Fault) -> None:
    machine.hushed = end
    grade = await open_grader()("hushed")
    assert grade.reason == "tests_bent"
    assert "silent over tests made false, 3 times alike" in grade.detail
    assert machine.runs == ["hushed", *["gold"] * 4, *["hushed"] * 3, "gold"]


@pytest.mark.parametrize("end", ["silent", "kill", "gone", "memory", "stall", "was_full"])
async def test_an_audit_that_the_machine_silences_accuses_nobody(
    machine: Machine, open_grader: Open, end: Fault
) -> None:
    machine.faults = dict.fromkeys((6, 7, 8, 9), end)  # the audits of the patch, and the control after them
    assert await reason_of(open_grader()("equivalent")) in ("verifier", "resolved")
    machine.faults = dict.fromkeys((len(machine.runs) + 6, len(machine.runs) + 7), end)
    assert (await open_grader()("equivalent")).reason == "resolved"


async def test_a_forger_is_told_with_what_the_belief_rests_on(open_grader: Open) -> None:
    grade = await open_grader()("forger")
    assert "made false, it passed twice with the patch, and failed with the reference fix" in grade.detail


@pytest.mark.parametrize("fault", ["kill", "silent", "stall", "memory", "gone"])
async def test_a_calibration_that_stays_disturbed_is_a_verifiers_failure(
    machine: Machine, open_grader: Open, fault: Fault
) -> None:
    machine.standing = (2, fault)
    with pytest.raises(VerifierError) as failure:
        await open_grader(calibration_tries=2)("equivalent")
    assert failure.value.kind == "audit_not_calibrated"
    assert machine.runs == ["equivalent", "gold", "gold"]


@pytest.mark.parametrize("fault", ["kill", "silent", "stall", "memory", "gone"])
async def test_a_control_that_was_clean_earlier_settles_nothing(
    machine: Machine, open_grader: Open, fault: Fault
) -> None:
    grade = open_grader()
    assert (await grade("killing")).reason == "tests_fail"
    assert machine.runs == ["killing", "killing", "killing", "gold"]
    machine.standing = (5, fault)
    with pytest.raises(VerifierError, match="and the reference fix, run in the same way") as failure:
        await grade("gold")
    assert failure.value.kind.startswith("control_")


async def test_a_failing_patch_costs_one_run_where_all_its_tests_are_reported(
    machine: Machine, open_grader: Open
) -> None:
    grade = open_grader()
    await grade("wrong")
    await grade("regressing")
    assert machine.runs == ["wrong", "regressing"]


@pytest.mark.parametrize("patch", ["wrong", "forger", "killing"])
async def test_a_zero_on_a_machine_without_room_is_the_machines_failure(
    machine: Machine, open_grader: Open, patch: str
) -> None:
    machine.standing = (1, "full")
    with pytest.raises(InfraError, match="MiB free, under 64") as failure:
        await open_grader()(patch)
    assert failure.value.kind == "machine_disk"


@pytest.mark.parametrize(
    ("lacking", "kind"),
    [({"memory_mib": 3}, "machine_memory"), ({"pids": 2}, "machine_pids"), ({"files": 1}, "machine_disk")],
)
async def test_what_the_machine_lacks_is_named(
    machine: Machine, open_grader: Open, lacking: dict[str, int], kind: str
) -> None:
    usage = machine.usage._replace(**lacking)
    machine.measure = lambda: usage  # type: ignore[method-assign]
    with pytest.raises(InfraError) as failure:
        await open_grader()("wrong")
    assert failure.value.kind == kind


@pytest.mark.parametrize("patch", ["equivalent", "wrong"])
async def test_a_patch_that_the_machine_could_not_write_is_tried_again(
    machine: Machine, open_grader: Open, patch: str
) -> None:
    machine.refusals = {1}
    assert (await open_grader()(patch)).reason == RIGHT[patch]


async def test_a_limit_that_the_reference_fix_needs_too_is_raised(machine: Machine, open_grader: Open) -> None:
    slow = {"equivalent": 70.0, "gold": 50.0}
    machine.took_s = lambda number: slow[machine.runs[number - 1]]
    assert (await open_grader(tests_timeout_factor=2, audit=False)("equivalent")).reason == "resolved"
    assert (machine.runs, machine.limits) == (["equivalent", "equivalent", "gold", "equivalent"], [60, 60, 60, 100])


async def test_a_patch_far_slower_than_the_reference_fix_is_a_timeout(machine: Machine, open_grader: Open) -> None:
    slow = {"equivalent": 700.0, "gold": 50.0}
    machine.took_s = lambda number: slow[machine.runs[number - 1]]
    assert (await open_grader(tests_timeout_factor=2)("equivalent")).reason == "timeout"
    assert machine.limits == [60, 60, 60, 100, 100, 100]
