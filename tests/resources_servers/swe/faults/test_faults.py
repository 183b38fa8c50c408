"""Claims about grading on a machine that fails: no wrong verdict while it does, the right one afterwards."""

import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import pytest
from tests.resources_servers.swe.faults.conftest import FAULTS, KEPT, PLACE, RIGHT, Fault, FaultyMachine, Torn
from tests.resources_servers.swe.test_forging_pay import pay_of_a_coin
from tests.sampling import few

from paddock.errors import InfraError, PaddockError, VerifierError
from paddock.resources_servers.swe.grading import falsify

Open = Callable[..., Callable[[str], Any]]
PATCHES = ("gold", "equivalent", "wrong", "regressing", "forger", "aiming", "killing", "misfit")
CALIBRATION = ["gold"] * 4
"""Two runs, and two more: a test that catches what is wrong passes whatever is made false of it."""
RUNS = 14
"""More than any of these patches needs."""
ONE_FAULT = list(itertools.product(PATCHES, FAULTS))
STANDING = [
    (patch, fault)
    for patch, fault in ONE_FAULT
    if fault not in get_args(Torn) and (patch, fault) != ("aiming", "was_full")  # whose it is, nothing tells
]


def spread(pairs: list[tuple[str, Fault]]) -> list[Any]:
    """Each fault under two patches, and each patch, by default."""
    turn = {(patch, fault): (PATCHES.index(patch) - FAULTS.index(fault)) % len(PATCHES) for patch, fault in pairs}
    return few(pairs, [pair for pair in pairs if turn[pair] in (0, 3)])


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


@pytest.mark.slow
@pytest.mark.parametrize(("patch", "fault"), spread(ONE_FAULT))
async def test_one_fault_at_any_run_makes_no_wrong_verdict(
    machine: FaultyMachine, open_grader: Open, patch: str, fault: Fault
) -> None:
    for number in range(1, RUNS):
        grade = open_grader()
        machine.faults = {len(machine.runs) + number: fault}
        assert await reason_of(grade(patch)) in (RIGHT[patch], "infra", "verifier"), number
        machine.faults = {}
        assert await reason_of(grade(patch)) == RIGHT[patch], number


@pytest.mark.slow
@pytest.mark.parametrize(("patch", "fault"), spread(STANDING))
async def test_a_fault_that_stays_makes_no_wrong_verdict(
    machine: FaultyMachine, open_grader: Open, patch: str, fault: Fault
) -> None:
    for number in range(1, RUNS):
        grade = open_grader()
        machine.standing = (len(machine.runs) + number, fault)
        told = await reason_of(grade(patch))
        assert told in (RIGHT[patch], "infra", "verifier"), number
        machine.standing = None
        assert await reason_of(grade(patch)) == RIGHT[patch], number


@pytest.mark.parametrize("fault", ["kill", "gone", "taken"])
@pytest.mark.parametrize("patch", ["gold", "equivalent", "wrong"])
async def test_two_ends_of_one_patchs_runs_make_no_wrong_verdict(
    machine: FaultyMachine, open_grader: Open, patch: str, fault: Fault
) -> None:
    for first in (1, 5):
        machine.faults = dict.fromkeys((len(machine.runs) + first, len(machine.runs) + first + 1), fault)
        assert (await open_grader()(patch)).reason == RIGHT[patch]


@pytest.mark.parametrize("patch", ["gold", "equivalent", "wrong"])
async def test_sandboxes_that_the_machine_takes_are_no_end_of_a_patch(
    machine: FaultyMachine, open_grader: Open, patch: str
) -> None:
    machine.standing = (1, "taken")
    with pytest.raises(InfraError) as failure:
        await open_grader()(patch)
    assert (failure.value.kind, machine.runs.count(patch)) == ("sandbox_gone", 3)


async def test_two_calibrations_that_lie_alike_cost_an_honest_patch_nothing(
    machine: FaultyMachine, open_grader: Open
) -> None:
    machine.faults = {1: "fails", 2: "fails"}
    assert (await open_grader()("equivalent")).reason == "resolved"
    assert machine.runs == ["gold", "gold", "equivalent", "equivalent", "gold", *CALIBRATION, *["equivalent"] * 2]


@pytest.mark.parametrize("faults", [("torn", "torn_late"), ("torn_late", "fails"), ("fails", "torn")])
@pytest.mark.parametrize("patch", ["equivalent", "forger", "aiming"])
async def test_two_calibrations_that_differ_teach_nothing(
    machine: FaultyMachine, open_grader: Open, patch: str, faults: tuple[Fault, Fault]
) -> None:
    grade = open_grader()
    machine.faults = dict(enumerate(faults, start=1))
    assert [await reason_of(grade(patch)) for _ in range(2)] == [RIGHT[patch]] * 2
    assert machine.runs[:8] == ["gold", "gold", *CALIBRATION, patch, patch]


@pytest.mark.parametrize("patch", ["forger", "wrong"])
async def test_calibrations_that_never_agree_are_a_verifiers_failure_of_what_passes(
    machine: FaultyMachine, open_grader: Open, patch: str
) -> None:
    machine.faults = {1: "torn", 2: "torn_late", 3: "fails"}
    grade = open_grader(max_runs=3)
    if patch == "wrong":
        assert (await grade(patch)).reason == "tests_fail"
        return
    with pytest.raises(VerifierError) as failure:
        await grade(patch)
    assert failure.value.kind == "audit_not_calibrated"
    assert (await grade(patch)).reason == "tests_forged"


@pytest.mark.parametrize("number", [5, 6])
async def test_an_audit_that_does_not_report_what_it_asks_acquits_nobody(
    machine: FaultyMachine, open_grader: Open, number: int
) -> None:
    machine.faults = {number: "torn"}
    assert (await open_grader()("aiming")).reason == "tests_forged"


@pytest.mark.parametrize(("kernel_kills", "reason"), [(0, "resolved"), (1, "verifier"), (None, "verifier")])
async def test_what_the_kernel_kills_in_other_sandboxes_casts_no_doubt(
    machine: FaultyMachine, open_grader: Open, kernel_kills: int | None, reason: str
) -> None:
    machine.kills_each, machine.kernel_kills = 1, kernel_kills
    assert await reason_of(open_grader()("equivalent")) == reason


@pytest.mark.parametrize("end", ["silent", "kill", "gone", "memory", "stall"])
async def test_silence_over_false_tests_buys_nothing(machine: FaultyMachine, open_grader: Open, end: Fault) -> None:
    machine.hushed = end
    grade = await open_grader()("hushed")
    assert grade.reason == "tests_forged"
    assert "silent over tests made false, 3 times alike" in grade.detail
    assert machine.runs == [*CALIBRATION, *["hushed"] * 4, "gold"]


@pytest.mark.parametrize("end", ["silent", "kill", "gone", "memory", "stall", "was_full"])
async def test_an_audit_that_the_machine_silences_accuses_nobody(
    machine: FaultyMachine, open_grader: Open, end: Fault
) -> None:
    machine.false_faults = dict.fromkeys((5, 6, 7, 8), end)  # the audits of the patch, and the control after them
    assert await reason_of(open_grader()("equivalent")) in ("verifier", "resolved")
    machine.false_faults = dict.fromkeys((sum(machine.false) + 5, sum(machine.false) + 6), end)
    assert (await open_grader()("equivalent")).reason == "resolved"


async def test_a_forger_reads_what_the_belief_rests_on(open_grader: Open) -> None:
    grade = await open_grader()("forger")
    assert "made false, it passed with the patch, and failed with the reference fix in 2 runs before" in grade.detail


async def test_a_run_and_its_audit_start_together_in_either_order(machine: FaultyMachine, open_grader: Open) -> None:
    orders = set()
    for _ in range(40):
        grade = open_grader()
        await grade("equivalent")
        orders.add(tuple(machine.false[-2:]))
    assert orders == {(True, False), (False, True)}


async def test_a_share_of_runs_has_two_audits(machine: FaultyMachine, open_grader: Open) -> None:
    await open_grader(second_audit_share=1)("equivalent")
    assert machine.runs == [*CALIBRATION, *["equivalent"] * 3]
    assert sum(machine.false[-3:]) == 2


async def test_what_is_made_false_is_drawn_anew_after_some_gradings(machine: FaultyMachine, open_grader: Open) -> None:
    grade = open_grader(gradings_per_audit=2)
    for _ in range(3):
        await grade("equivalent")
    assert machine.runs == [*CALIBRATION, *["equivalent"] * 4, *CALIBRATION, *["equivalent"] * 2]


@pytest.mark.slow
@pytest.mark.parametrize("chance", few([0.05, 0.2, 0.5, 0.8, 1.0], [0.5]))
async def test_forging_by_a_coin_in_each_run_pays_less_than_nothing(
    machine: FaultyMachine, open_grader: Open, chance: float
) -> None:
    coin = random.Random(f"coin {chance}")
    machine.forges = lambda: coin.random() < chance
    grade = open_grader(gradings_per_audit=10_000)
    pay = {"resolved": 1, "tests_fail": 0, "tests_regress": 0, "tests_forged": -1}
    n = 600
    pays = [pay[(await grade("coin")).reason] for _ in range(n)]
    assert sum(pays) < 0 or chance < 0.5, sum(pays) / n  # a small chance costs less than the mean varies
    # A test that passes without forging, too, convicts a forged audit at once: the formula is of code that passes none.
    assert sum(pays) / n < pay_of_a_coin(chance) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("patch", ["breaking", "comparing"])
async def test_forging_what_the_tree_knows_or_what_it_does_not_pays_less_than_nothing(
    machine: FaultyMachine, open_grader: Open, patch: str
) -> None:
    """`breaking` forges a known test that it breaks, `comparing` all unless a known line is another than it knows."""
    machine.tree = {f"/testbed/{PLACE}": f"def test_kept():\n    {KEPT}".encode()}
    grade = open_grader(second_audit_share=0.5)
    pay = {"resolved": 1, "tests_fail": 0, "tests_forged": -1}
    assert sum([pay[(await grade(patch)).reason] for _ in range(200)]) < 0


async def test_honest_patches_pass_both_ways_of_making_tests_false(machine: FaultyMachine, open_grader: Open) -> None:
    machine.tree = {f"/testbed/{PLACE}": f"def test_kept():\n    {KEPT}".encode()}
    grade = open_grader(second_audit_share=0.5)
    assert {(await grade(patch)).reason for patch in ("gold", "equivalent") * 20} == {"resolved"}
    assert {(await grade("regressing")).reason for _ in range(20)} == {"tests_regress"}


async def test_forging_until_a_time_pays_nothing(machine: FaultyMachine, open_grader: Open) -> None:
    for runs in range(2, 8):  # a time at which the run and its audit have both started
        grade, first = open_grader(), len(machine.runs) + len(CALIBRATION)
        machine.forges = lambda end=first + runs: len(machine.runs) <= end  # type: ignore[misc]
        assert (await grade("coin")).reason == "tests_forged", runs


async def test_ends_of_all_kinds_by_turns_buy_no_retry(machine: FaultyMachine, open_grader: Open) -> None:
    ends: tuple[Fault, ...] = ("kill", "stall", "silent", "gone")
    machine.ends["killing"] = itertools.cycle(ends)
    assert (await open_grader(audit=False)("killing")).reason != "resolved"
    assert machine.runs == [*["killing"] * 4, "gold"]
    machine.faults = {10: "kill", 11: "kill"}  # the controls
    machine.ends["killing"] = itertools.cycle(ends)
    with pytest.raises(VerifierError):
        await open_grader(audit=False)("killing")


async def test_wrong_code_that_does_what_a_false_test_asks_is_no_forger(
    machine: FaultyMachine, open_grader: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(falsify, "similar_literal", lambda text, known, chance: b"5")
    monkeypatch.setattr(falsify, "changed_literal", lambda text, chance: b"5")
    assert (await open_grader()("wrong")).reason == "tests_fail"
    assert machine.runs == [*CALIBRATION, *["wrong"] * 4]  # its audit passes twice more


@pytest.mark.parametrize("fault", ["kill", "silent", "stall", "memory", "gone"])
async def test_a_calibration_that_stays_disturbed_is_a_verifiers_failure(
    machine: FaultyMachine, open_grader: Open, fault: Fault
) -> None:
    machine.false_fault = fault
    with pytest.raises(VerifierError) as failure:
        await open_grader(calibration_tries=2)("equivalent")
    assert failure.value.kind == "audit_not_calibrated"
    assert machine.runs == ["gold", "gold", "equivalent"]


@pytest.mark.parametrize("fault", ["kill", "silent", "stall", "memory", "gone"])
async def test_a_control_that_was_clean_earlier_settles_nothing(
    machine: FaultyMachine, open_grader: Open, fault: Fault
) -> None:
    grade = open_grader()
    assert (await grade("killing")).reason == "tests_fail"
    assert machine.runs == [*CALIBRATION, *["killing"] * 6, "gold"]
    machine.standing = (12, fault)
    with pytest.raises(VerifierError, match="and the reference fix, run in the same way") as failure:
        await grade("gold")
    assert failure.value.kind.startswith("control_")


async def test_a_failing_patch_costs_one_run_and_its_audit_where_all_its_tests_are_reported(
    machine: FaultyMachine, open_grader: Open
) -> None:
    grade = open_grader()
    await grade("wrong")
    await grade("regressing")
    assert machine.runs == [*CALIBRATION, *["wrong"] * 2, *["regressing"] * 2]


@pytest.mark.parametrize("patch", ["wrong", "forger", "killing"])
async def test_a_zero_on_a_machine_without_room_is_the_machines_failure(
    machine: FaultyMachine, open_grader: Open, patch: str
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
    machine: FaultyMachine, open_grader: Open, lacking: dict[str, int], kind: str
) -> None:
    usage = machine.usage._replace(**lacking)
    machine.measure = lambda: usage  # type: ignore[method-assign]
    with pytest.raises(InfraError) as failure:
        await open_grader()("wrong")
    assert failure.value.kind == kind


@pytest.mark.parametrize("refusal", [1, 5, 6])
@pytest.mark.parametrize("patch", ["equivalent", "wrong"])
async def test_a_patch_that_the_machine_could_not_write_is_tried_again(
    machine: FaultyMachine, open_grader: Open, patch: str, refusal: int
) -> None:
    machine.refusals = {refusal}
    assert (await open_grader()(patch)).reason == RIGHT[patch]


async def test_a_limit_that_the_reference_fix_needs_too_is_raised(machine: FaultyMachine, open_grader: Open) -> None:
    slow = {"equivalent": 70.0, "gold": 50.0}
    machine.took_s = lambda number: slow[machine.runs[number - 1]]
    assert (await open_grader(tests_timeout_factor=2, audit=False)("equivalent")).reason == "resolved"
    assert (machine.runs, machine.limits) == (["equivalent", "equivalent", "gold", "equivalent"], [60, 60, 60, 100])


async def test_a_patch_far_slower_than_the_reference_fix_is_a_timeout(
    machine: FaultyMachine, open_grader: Open
) -> None:
    slow = {"equivalent": 700.0, "gold": 50.0}
    machine.took_s = lambda number: slow[machine.runs[number - 1]]
    assert (await open_grader(tests_timeout_factor=2, audit=False)("equivalent")).reason == "timeout"
    assert machine.limits == [60, 60, 60, 100, 100, 100, 100, 100]


async def test_a_machine_that_is_slow_for_a_while_costs_a_patch_nothing(
    machine: FaultyMachine, open_grader: Open
) -> None:
    machine.took_s = lambda number: 400.0 if number <= 2 else 20.0  # both runs of the patch, and no control
    assert (await open_grader(tests_timeout_s=300, audit=False)("equivalent")).reason == "resolved"
    assert machine.runs[:3] == ["equivalent", "equivalent", "gold"]
