"""Claims about a disk that refuses: whoever waits is told, nothing is half written, and nobody is locked out."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.errors import VerifierError
from paddock.resources_servers.genrm.groups.records import GroupSlot, Submission
from paddock.resources_servers.genrm.groups.schema import FILE
from paddock.resources_servers.genrm.groups.store import GroupStore
from paddock.resources_servers.genrm.records import Candidate, ResponseTraits

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.resources_servers.genrm.conftest import GenrmStage

    StageOf = Callable[..., AbstractAsyncContextManager[GenrmStage]]


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        db.execute(statement)


async def test_a_group_whose_state_can_not_be_written_is_told_so_and_is_judged_when_it_can(
    stage_of: "StageOf", tmp_path: Path
) -> None:
    async with stage_of(folder=tmp_path) as stage:
        change(tmp_path, "CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        async with asyncio.timeout(60):
            told = await asyncio.gather(
                *(stage.verify(nth, text) for nth, text in enumerate("abcd")), return_exceptions=True
            )
        assert all(isinstance(one, VerifierError) and "disk is full" in one.message for one in told), told
        assert stage.judge.requests == 0
        change(tmp_path, "DROP TRIGGER full")
        verdicts = await stage.group(["a", "b", "c", "d"])
        assert {verdict.reason for verdict in verdicts} == {"scored"}


async def test_a_commit_that_is_refused_is_taken_back_told_and_leaves_no_lock(tmp_path: Path) -> None:
    place = GroupSlot("key", 2, 0, rounds=False)
    candidate = Candidate(text="a", traits=ResponseTraits(answer_chars=1, reasoning_chars=0, style_density=0))
    submission = Submission(0, "digest", candidate, "text")
    one, other = GroupStore(tmp_path), GroupStore(tmp_path)
    lost: list[sqlite3.Error] = []
    one.on_write_failure = lost.append
    # No disk is needed to make a commit fail: what is only looked at then is a deferred reference to nothing.
    db = one._db
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("CREATE TABLE a (x PRIMARY KEY)")
    db.execute("CREATE TABLE b (x REFERENCES a (x) DEFERRABLE INITIALLY DEFERRED)")
    placed = one.enter(place, submission, group_timeout_s=60)
    db.execute("INSERT INTO b VALUES (1)")
    await asyncio.sleep(0.01)
    assert [type(error) for error in lost] == [sqlite3.IntegrityError]
    assert other.read(placed.group) is None
    other.enter(place, submission, group_timeout_s=60)
    await asyncio.sleep(0.01)
    found = one.read(placed.group)
    assert found is not None and found.present == [0]
    one.close()
    other.close()
