"""Groups on disk: what a server reads and writes of them.

Law     every change looks first whether what it was decided on still holds (`revision`): of several servers that decide
        at once, one does it and the others read it. Times are seconds since 1970 (UTC).
Writes  of one turn of the event loop are one transaction: it ends before anybody who waits for them goes on. When the
        disk refuses, all of them are taken back, the file is free for others, and `on_write_failure` is called.
Claims  a question is asked by the server that claimed it. What a dead server claimed is free (`workers`).
Errors  sqlite3.Error when the disk refuses; `entry` says who may come, and as whom.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.resources_servers.genrm.groups import entry
from paddock.resources_servers.genrm.groups.records import (
    Answer,
    AnswerKey,
    FailedComparison,
    GroupJudgement,
    GroupMember,
    GroupSlot,
    Membership,
    Presence,
    Submission,
)
from paddock.resources_servers.genrm.groups.schema import TABLES_OF_GROUP, open_database
from paddock.resources_servers.genrm.groups.workers import WorkerLock
from paddock.resources_servers.genrm.records import JudgeScores, ResponseTraits


@dataclass
class GroupState:
    """A group as it was read, and what its reader has written since."""

    size: int
    opened_at: float | None
    closed: bool
    revision: int
    judgement: GroupJudgement | None
    members: dict[int, GroupMember]
    answers: dict[AnswerKey, Answer]
    claimed: dict[AnswerKey, str]
    """Questions that a server is asking, by whom."""

    @property
    def present(self) -> list[int]:
        return self._of("here")

    @property
    def withdrawn(self) -> list[int]:
        return self._of("withdrawn")

    def _of(self, presence: Presence) -> list[int]:
        return sorted(number for number, member in self.members.items() if member.presence == presence)


_WRITING: "set[GroupStore]" = set()
"""Stores of this process whose transaction is open."""


class GroupStore:
    """All groups of a folder; used from one thread."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.worker = WorkerLock(folder)
        self.worker.sweep()
        self._thread = threading.get_ident()
        self._db = open_database(folder)
        self._last_version = self._version()
        self._committing: asyncio.Handle | None = None
        self.on_write_failure: Callable[[sqlite3.Error], None] = lambda _: None
        """Called when what was written in this turn of the loop has been rolled back."""

    def close(self) -> None:
        self._commit()
        self._db.close()
        self.worker.close()

    def has_foreign_changes(self) -> bool:
        """Say whether another server has written since the last call."""
        last_version, self._last_version = self._last_version, self._version()
        return last_version != self._last_version

    def enter(self, slot: GroupSlot, submission: Submission, *, group_timeout_s: float) -> Membership:
        """Make a submission a member of its group; VerifierError where it can't be one any more (`entry`)."""
        with self._writing() as db:
            return entry.enter(db, slot, submission, now=self.clock(), group_timeout_s=group_timeout_s)

    def withdraw(self, slot: GroupSlot, attempt: int, *, group_timeout_s: float) -> str | None:
        """Note that a member comes no more; returns its group, None: that makes no difference."""
        with self._writing() as db:
            return entry.withdraw(db, slot, attempt, now=self.clock(), group_timeout_s=group_timeout_s)

    def read(self, group: str) -> GroupState | None:
        """Read a group; None: it is not there any more."""
        row = self._db.execute(
            "SELECT size, opened_at, closed, revision, judgement FROM groups WHERE id = ?", (group,)
        ).fetchone()
        if row is None:
            return None
        size, opened_at, closed, revision, judgement = row
        members = self._db.execute(
            "SELECT member, attempt, digest, text_digest, traits, presence FROM members WHERE id = ?", (group,)
        )
        answers: dict[AnswerKey, Answer] = {}
        claimed: dict[AnswerKey, str] = {}
        for first, second, judge_idx, worker, answer, failed in self._db.execute(
            "SELECT first, second, judge_idx, worker, answer, failed FROM answers WHERE id = ?", (group,)
        ):
            key = AnswerKey(first, second, judge_idx)
            if answer is not None:
                answers[key] = JudgeScores.model_validate_json(answer)
            elif failed is not None:
                answers[key] = FailedComparison.model_validate_json(failed)
            else:
                claimed[key] = worker
        return GroupState(
            size,
            opened_at,
            bool(closed),
            revision,
            GroupJudgement.model_validate_json(judgement) if judgement else None,
            {
                number: GroupMember(attempt, digest, text, ResponseTraits.model_validate_json(traits), presence)
                for number, attempt, digest, text, traits, presence in members
            },
            answers,
            claimed,
        )

    def text(self, group: str, text_digest: str) -> str:
        """Return what a judge is shown of a member; LookupError where nobody has that text."""
        row = self._db.execute(
            "SELECT text FROM members WHERE id = ?1 AND text_digest = ?2 "
            "UNION ALL SELECT text FROM late WHERE id = ?1 AND text_digest = ?2 LIMIT 1",
            (group, text_digest),
        ).fetchone()
        if row is None:
            raise LookupError(f"group {group}: nobody has the text {text_digest}")
        return str(row[0])

    def late_member(self, membership: Membership) -> tuple[GroupMember, GroupJudgement | None] | None:
        """Return a late submission, and its judgement once it has one; None: it is not there any more."""
        row = self._db.execute(
            "SELECT text_digest, traits, judgement FROM late "
            "WHERE id = ? AND member = ? AND attempt = ? AND digest = ?",
            membership[:4],
        ).fetchone()
        if row is None:
            return None
        traits = ResponseTraits.model_validate_json(row[1])
        member = GroupMember(membership.attempt, membership.digest, text_digest=row[0], traits=traits, presence="here")
        return member, GroupJudgement.model_validate_json(row[2]) if row[2] else None

    def claim(self, group: str, wanted: Iterable[AnswerKey]) -> list[AnswerKey]:
        """Claim questions that nobody has answered; returns those that this server is to ask now."""
        mine: list[AnswerKey] = []
        with self._writing() as db:
            for key in wanted:
                held = db.execute(
                    "SELECT worker, answer IS NOT NULL OR failed IS NOT NULL FROM answers "
                    "WHERE id = ? AND first = ? AND second = ? AND judge_idx = ?",
                    (group, *key),
                ).fetchone()
                if held is not None and (held[1] or self.worker.is_alive(held[0])):
                    continue
                db.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, NULL, NULL)", self._claim_row(group, key)
                )
                mine.append(key)
        return mine

    def release(self, group: str, keys: Iterable[AnswerKey]) -> None:
        """Let others ask what this server claimed and did not get answered."""
        with self._writing() as db:
            db.executemany(
                "DELETE FROM answers WHERE id = ? AND first = ? AND second = ? AND judge_idx = ? AND worker = ? "
                "AND answer IS NULL AND failed IS NULL",
                [self._claim_row(group, key) for key in keys],
            )

    def answer(self, group: str, answers: Mapping[AnswerKey, Answer]) -> None:
        """Store the answers that this server got, failures included."""
        with self._writing() as db:
            for key, answer in answers.items():
                column = "failed" if isinstance(answer, FailedComparison) else "answer"
                db.execute(
                    f"UPDATE answers SET {column} = ? WHERE id = ? AND first = ? AND second = ? AND judge_idx = ? "  # noqa: S608 - one of two words of ours
                    "AND worker = ? AND answer IS NULL AND failed IS NULL",
                    (answer.model_dump_json(), *self._claim_row(group, key)),
                )

    def settle(self, group: str, revision: int, judgement: GroupJudgement) -> bool:
        """Store the group's judgement, unless the group has changed."""
        return self._change(
            "UPDATE groups SET judgement = ?, closed = 1, touched_at = ?, revision = revision + 1 "
            "WHERE id = ? AND revision = ? AND judgement IS NULL",
            (judgement.model_dump_json(), self.clock(), group, revision),
        )

    def close_group(self, group: str, revision: int) -> bool:
        """Let no further member in, unless the group has changed."""
        return self._change(
            "UPDATE groups SET closed = 1, revision = revision + 1 WHERE id = ? AND revision = ? AND judgement IS NULL",
            (group, revision),
        )

    def give_up(self, group: str, revision: int) -> bool:
        """Give up all members, unless the group has changed; who comes next begins anew."""
        return self._reopen(
            group, revision, "UPDATE members SET presence = 'given_up' WHERE id = ? AND presence = 'here'"
        )

    def reset(self, group: str, revision: int) -> bool:
        """Forget all members but the withdrawn, unless the group has changed."""
        return self._reopen(
            group,
            revision,
            "DELETE FROM members WHERE id = ? AND presence <> 'withdrawn'",
            "DELETE FROM answers WHERE id = ? AND failed IS NOT NULL",
        )

    def store_late_judgement(self, membership: Membership, judgement: GroupJudgement) -> None:
        """Store a late member's judgement, unless it has one."""
        self._change(
            "UPDATE late SET judgement = ? WHERE id = ? AND member = ? AND attempt = ? AND digest = ? "
            "AND judgement IS NULL",
            (judgement.model_dump_json(), *membership[:4]),
        )

    def prune(self, *, keep_settled_s: float, keep_open_s: float, in_use: Iterable[str]) -> int:
        """Forget groups that are over, except those `in_use`; returns how many."""
        now, used = self.clock(), set(in_use)
        with self._writing() as db:
            old = db.execute(
                "SELECT id FROM groups WHERE touched_at < CASE WHEN judgement IS NULL THEN ? ELSE ? END",
                (now - keep_open_s, now - keep_settled_s),
            ).fetchall()
            gone = [row for row in old if row[0] not in used]
            for table in TABLES_OF_GROUP:
                db.executemany(f"DELETE FROM {table} WHERE id = ?", gone)  # noqa: S608 - a name of ours
        return len(gone)

    def _reopen(self, group: str, revision: int, *then: str) -> bool:
        with self._writing() as db:
            cursor = db.execute(
                "UPDATE groups SET opened_at = NULL, closed = 0, touched_at = ?, revision = revision + 1 "
                "WHERE id = ? AND revision = ? AND judgement IS NULL",
                (self.clock(), group, revision),
            )
            for statement in then if cursor.rowcount else ():
                db.execute(statement, (group,))
        return bool(cursor.rowcount)

    def _claim_row(self, group: str, key: AnswerKey) -> tuple[str, str, str, int, str]:
        return (group, *key, self.worker.id)

    def _change(self, statement: str, values: tuple[object, ...]) -> bool:
        with self._writing() as db:
            return bool(db.execute(statement, values).rowcount)

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._db.in_transaction:
            # One of this thread that others have open would never end while we wait for it.
            for other in list(_WRITING):
                if other._thread == self._thread:
                    other._commit()
            self._db.execute("BEGIN IMMEDIATE")
            _WRITING.add(self)
            self._commit_soon()
        try:
            yield self._db
        except sqlite3.Error as error:
            self._roll_back(error)
            raise

    def _commit_soon(self) -> None:
        """Commit after all that runs now, and before whoever waits for it runs."""
        self._committing = asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        _WRITING.discard(self)
        if self._committing is not None:
            self._committing.cancel()
            self._committing = None
        if not self._db.in_transaction:
            return
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(error)

    def _roll_back(self, error: sqlite3.Error) -> None:
        # A commit that was refused leaves its transaction open, and with it the lock on the file.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        self.on_write_failure(error)
