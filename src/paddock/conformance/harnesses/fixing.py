"""What a harness does with a known fix: plays it with its own tools, or applies it; what needs nothing does nothing."""

from typing import Any

from paddock.conformance.behaviours import Behaviour, NotApplicable, expect
from paddock.conformance.harnesses.stage import FILES, FIX, FIXED, HarnessSubject, Played, Stage, calls_in, staged
from paddock.conformance.sandboxes.stage import Room
from paddock.errors import RowError
from paddock.testing.sandboxes import WORKDIR
from paddock.types import Fix, JsonObject

LEAST_TURNS = 4
"""Look, edit, run the tests, finish."""
IDS = ("id", "call_id")


def _oracle(subject: HarnessSubject, fix: Fix = FIX) -> list[list[JsonObject]]:
    harness: Any = subject.make()
    if not hasattr(harness, "oracle"):
        raise NotApplicable("it has no oracle")
    turns: list[list[JsonObject]] = harness.oracle(fix)
    return turns


async def its_oracle_is_pure(subject: HarnessSubject) -> None:
    one, other = _oracle(subject), _oracle(subject)
    expect(_without_ids(one) == _without_ids(other), "the same fix gives other turns")
    expect(len(one) >= LEAST_TURNS, f"its oracle has {len(one)} turns: look, edit, run the tests, finish")
    ids = [item.get("call_id") for turn in one for item in calls_in(turn)]
    expect(all(ids) and len(set(ids)) == len(ids), "two calls of it have one id")
    expect(any(FIX.test_command in str(turn) for turn in one), "it never runs the tests")


async def its_oracle_makes_the_fix(subject: HarnessSubject) -> None:
    for fix in (FIX, FIX.model_copy(update={"files": {}})):
        turns = _oracle(subject, fix)
        async with staged(subject) as stage:
            room = await stage.room()
            played = await stage.play(*turns, room=room, closing=None)
            left = played.ended("finished")
            expect(left.turns == len(turns), f"of its oracle's {len(turns)} turns {left.turns} were played")
            expect(not left.malformed, f"calls of its oracle are counted as {left.malformed}")
            await _is_fixed(stage, room)


async def a_known_fix_is_made(subject: HarnessSubject) -> None:
    async with staged(subject, "gold") as stage:
        room = await stage.room()
        played = await stage.play(room=room, closing=None)
        _asked_nobody(played)
        await _is_fixed(stage, room)


async def a_fix_that_does_not_apply_is_the_rows(subject: HarnessSubject) -> None:
    async with staged(subject, "gold") as stage:
        room = await stage.room()
        await room.out("echo other > calc.py", workdir=WORKDIR)
        played = await stage.play(room=room, closing=None)
        expect(
            isinstance(played.error, RowError), f"a fix that does not apply came out as {played.left or played.error!r}"
        )


async def nothing_is_done(subject: HarnessSubject) -> None:
    async with staged(subject, "nothing") as stage:
        room = await stage.room()
        played = await stage.play(room=room, closing=None)
        _asked_nobody(played)
        patch = await stage.provider.patch(room.id, WORKDIR)
        expect(patch.data == b"", f"it changed the repository: {patch.data[:300]!r}")


def _asked_nobody(played: Played) -> None:
    left = played.ended("finished")
    expect(
        (left.turns, played.raw) == (0, []), f"without a model it made {len(played.raw)} calls, and says {left.turns}"
    )


async def _is_fixed(stage: Stage, room: Room) -> None:
    """The repository is the fixed one, and nothing else in it has changed."""
    for path, text in {**FILES, **FIXED}.items():
        data = bytes(await stage.provider.read(room.id, f"{WORKDIR}/{path}"))
        expect(data.decode() == text, f"{path} holds {data.decode(errors='replace')!r:.300}")
    patch = (await stage.provider.patch(room.id, WORKDIR, exclude=("__pycache__",))).data.decode()
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
