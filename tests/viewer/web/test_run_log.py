"""Claims about the rows that a page gets: those of the run, once each, as they come, whatever happens to the files."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from paddock.collect.folder import FAILURES, INDEX, ROLLOUTS
from paddock.collect.lines import to_line
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.viewer import read_entries
from paddock.viewer.web.run_log import COLUMNS, RowPage, RunLog


def rows_of(page: RowPage) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in orjson.loads(page.rows)]


def index_line(group: int, member: int = 0, reward: float = 1.0) -> bytes:
    where = group * 100
    result = RolloutResult(
        group_id=group, member=member, agent="one", outcome="completed", reward=reward, start=where, end=where + 100
    )
    return to_line(result)


def failure_line(group: int, attempt: int = 0) -> bytes:
    failed = FailedAttempt(
        group_id=group,
        member=0,
        attempt=attempt,
        agent="one",
        outcome="infra",
        owner="infra",
        kind="gone",
        message="x" * 999,
        at=1,
    )
    return to_line(failed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / INDEX).write_bytes(index_line(0) + index_line(1))
    (tmp_path / ROLLOUTS).write_bytes(b"")
    return tmp_path


def test_the_rows_are_those_that_the_run_lists(seen_run: Path, tmp_path: Path) -> None:
    def facts(key: tuple[int, int], outcome: str, reward: float | None, turns: int) -> tuple[Any, ...]:
        return (*key, outcome, reward, turns)

    listed = {
        facts(entry.result.key, entry.result.outcome, entry.result.reward, entry.result.turns)
        for entry in read_entries(seen_run)
    }
    copy = tmp_path / "copy"
    shutil.copytree(seen_run, copy)
    (copy / INDEX).unlink()
    for where in (seen_run, copy):
        rows = rows_of(RunLog(where).page())
        assert {facts((r["group"], r["member"]), r["outcome"], r["reward"], r["turns"]) for r in rows} == listed
        failed = [row["failure"] for row in rows if row["failure"]]
        assert [failure[:2] for failure in failed] == [["infra", "scripted"]] * 2


def test_each_page_gets_what_it_lacks(folder: Path) -> None:
    log = RunLog(folder)
    one, other = log.page(), log.page()
    with (folder / INDEX).open("ab") as file:
        file.write(index_line(2) + index_line(3)[:40])
    assert [row["group"] for row in rows_of(log.page(one.cursor))] == [2]
    with (folder / INDEX).open("ab") as file:
        file.write(index_line(3)[40:])
    page = log.page(other.cursor)
    assert [row["group"] for row in rows_of(page)] == [2, 3]
    assert rows_of(log.page(page.cursor)) == []
    assert not page.restarted


@pytest.mark.parametrize("replace", ["shorter", "another file"])
def test_a_file_that_is_not_the_one_that_was_read_is_read_anew(folder: Path, replace: str) -> None:
    log = RunLog(folder)
    before = log.page()
    if replace == "shorter":
        with (folder / INDEX).open("r+b") as file:
            file.truncate(len(index_line(0)))
    else:
        (folder / "new").write_bytes(index_line(7) + index_line(8) + index_line(9))
        (folder / "new").replace(folder / INDEX)
    page = log.page(before.cursor)
    assert page.restarted
    assert [row["group"] for row in rows_of(page)] == ([0] if replace == "shorter" else [7, 8, 9])
    assert not log.page(page.cursor).restarted


def test_an_index_that_comes_later_is_taken(folder: Path) -> None:
    index = (folder / INDEX).read_bytes()
    (folder / INDEX).unlink()
    log = RunLog(folder)
    page = log.page()
    assert rows_of(page) == []
    (folder / INDEX).write_bytes(index)
    assert [row["group"] for row in rows_of(log.page(page.cursor))] == [0, 1]


def test_a_damaged_line_costs_itself_alone(folder: Path) -> None:
    good = index_line(2)
    with (folder / INDEX).open("ab") as file:
        file.write(good.replace(b'"group_id":2', b'"group_id":5') + b"\xff\xfe\n" + b"{}\n" + good)
    page = RunLog(folder).page()
    assert [row["group"] for row in rows_of(page)] == [0, 1, 2]
    assert page.damaged == 3
    assert page.first_damaged is not None
    assert (page.first_damaged.file, page.first_damaged.number) == (INDEX, 3)
    assert "digest" in page.first_damaged.why


def test_a_verdict_follows_failed_attempts_and_none_follows_it(folder: Path) -> None:
    log = RunLog(folder)
    first = log.page()
    with (folder / FAILURES).open("wb") as file:
        file.write(failure_line(5) + failure_line(5, attempt=1) + failure_line(0))
    page = log.page(first.cursor)
    assert [(row["group"], row["outcome"], row["reward"]) for row in rows_of(page)] == [(5, "infra", None)] * 2
    assert len(rows_of(page)[0]["failure"][3]) == 500
    assert log.counts() == {"rollouts": 3, "outcomes": {"completed": 2, "infra": 1}, "mean_reward": 1.0}
    with (folder / INDEX).open("ab") as file:
        file.write(index_line(5, reward=0.0))
    assert [(row["group"], row["reward"]) for row in rows_of(log.page(page.cursor))] == [(5, 0.0)]
    assert log.failed((5, 0)) is None  # type: ignore[arg-type] # a tuple is equal to the key
    assert log.counts()["mean_reward"] == pytest.approx(2 / 3)
