"""What a harness does with a known fix: plays it with its own tools, or applies it; what needs nothing does nothing."""

from typing import Any

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.fixture import (
    FILES,
    FIX,
    FIXED,
    HarnessFixture,
    HarnessRun,
    HarnessTarget,
    calls_in,
    harness_fixture,
)
from paddock.conformance.sandboxes.fixture import SandboxFixture
from paddock.errors import RowError
from paddock.testing.sandboxes import WORKDIR
from paddock.types import Fix, JsonObject

LEAST_TURNS = 4
"""Look, edit, run the tests, finish."""
IDS = ("id", "call_id")


def _oracle(target: HarnessTarget, fix: Fix = FIX) -> list[list[JsonObject]]:
    harness: Any = target.make()
    if not hasattr(harness, "oracle"):
        raise NotApplicable("it has no oracle")
    turns: list[list[JsonObject]] = harness.oracle(fix)
    return turns


async def its_oracle_is_pure(target: HarnessTarget) -> None:
    first, second = _oracle(target), _oracle(target)
    expect(_without_ids(first) == _without_ids(second), "the same fix gives other turns")
    expect(len(first) >= LEAST_TURNS, f"its oracle has {len(first)} turns: look, edit, run the tests, finish")
    ids = [item.get("call_id") for turn in first for item in calls_in(turn)]
    expect(all(ids) and len(set(ids)) == len(ids), "two calls of it have one id")
    expect(any(FIX.test_command in str(turn) for turn in first), "it never runs the tests")


async def its_oracle_makes_the_fix(target: HarnessTarget) -> None:
    for fix in (FIX, FIX.model_copy(update={"files": {}})):
        turns = _oracle(target, fix)
        async with harness_fixture(target) as fixture:
            sandbox = await fixture.sandbox()
            run = await fixture.run(*turns, sandbox=sandbox, closing=None)
            exit_ = run.expect_exit("finished")
            expect(exit_.turns == len(turns), f"of its oracle's {len(turns)} turns {exit_.turns} were played")
            expect(not exit_.malformed, f"calls of its oracle are counted as {exit_.malformed}")
            await _expect_fixed(fixture, sandbox)


async def a_known_fix_is_made(target: HarnessTarget) -> None:
    async with harness_fixture(target, "gold") as fixture:
        sandbox = await fixture.sandbox()
        run = await fixture.run(sandbox=sandbox, closing=None)
        _expect_no_model_call(run)
        await _expect_fixed(fixture, sandbox)


async def a_fix_that_does_not_apply_is_the_rows(target: HarnessTarget) -> None:
    async with harness_fixture(target, "gold") as fixture:
        sandbox = await fixture.sandbox()
        await sandbox.out("echo other > calc.py", workdir=WORKDIR)
        run = await fixture.run(sandbox=sandbox, closing=None)
        expect(
            isinstance(run.error, RowError), f"a fix that does not apply came out as {run.exit_or_none or run.error!r}"
        )


async def nothing_is_done(target: HarnessTarget) -> None:
    async with harness_fixture(target, "nothing") as fixture:
        sandbox = await fixture.sandbox()
        run = await fixture.run(sandbox=sandbox, closing=None)
        _expect_no_model_call(run)
        patch = await fixture.provider.patch(sandbox.id, WORKDIR)
        expect(patch.data == b"", f"it changed the repository: {patch.data[:300]!r}")


def _expect_no_model_call(run: HarnessRun) -> None:
    exit_ = run.expect_exit("finished")
    expect(
        (exit_.turns, run.bodies) == (0, []),
        f"without a model it made {len(run.bodies)} calls, and says {exit_.turns}",
    )


async def _expect_fixed(fixture: HarnessFixture, sandbox: SandboxFixture) -> None:
    """Fail unless the repository has the fix, and nothing else in it has changed."""
    for path, text in {**FILES, **FIXED}.items():
        data = bytes(await fixture.provider.read(sandbox.id, f"{WORKDIR}/{path}"))
        expect(data.decode() == text, f"{path} holds {data.decode(errors='replace')!r:.300}")
    patch = (await fixture.provider.patch(sandbox.id, WORKDIR, exclude=("__pycache__",))).data.decode()
    touched = sorted(line.split(" b/", 1)[1] for line in patch.splitlines() if line.startswith("diff --git "))
    expect(touched == sorted(FIXED), f"it touched {touched}, the fix {sorted(FIXED)}")


def _without_ids(turns: list[list[JsonObject]]) -> list[list[JsonObject]]:
    return [[{key: value for key, value in item.items() if key not in IDS} for item in turn] for turn in turns]


SUITE = [
    Behaviour("its oracle is pure, and looks, edits, tests and finishes", its_oracle_is_pure),
    Behaviour("its oracle makes exactly the fix", its_oracle_makes_the_fix),
    Behaviour("a harness that needs the known fix makes it, and asks no model", a_known_fix_is_made),
    Behaviour("a known fix that does not apply is the row's fault", a_fix_that_does_not_apply_is_the_rows),
    Behaviour("a harness that needs nothing does nothing", nothing_is_done),
]
