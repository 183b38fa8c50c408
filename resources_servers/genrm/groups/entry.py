"""How a submission enters: into which group and round, as which member, in time or late. One transaction each.

Same    a submission is the same again when its member number, attempt and digest are: it joins what it began, and
        failed comparisons of it are asked again. In a group that was given up it gets that error again.
Newer   a higher attempt, or another response in the same attempt, takes a member's place; a lower attempt comes too
        late for that (`superseded`).
Late    in a group that is settled or closed, what is not the same again changes nothing: it is judged for itself.
Rounds  where rows don't say which group of a key they mean, or not as which member, a new one begins when the newest
        is full, settled, or has waited too long (so a fifth of four begins the next group, and waits there); a retry
        (attempt above 0) of a member of a settled one is late there.
Gone    a member that comes no more is noted, until it comes after all; its group waits for the others alone.
Clock   of a group whose time had run out with nobody to say so, it starts again.
"""

import sqlite3
from typing import NamedTuple

from paddock.resources_servers.genrm.groups.records import (
    GroupJudgement,
    GroupSlot,
    Membership,
    Presence,
    Submission,
    incomplete,
    superseded,
)
from paddock.resources_servers.genrm.records import Candidate, ResponseTraits

NOBODY = Candidate(text="", traits=ResponseTraits(answer_chars=0, reasoning_chars=0, style_density=0.0))


class _GroupRow(NamedTuple):
    """A row of the table `groups`."""

    id: str
    round: int
    opened_at: float | None
    closed: bool
    judgement: str | None


class _Arrival(NamedTuple):
    """A submission that enters now, and the transaction that it enters in."""

    db: sqlite3.Connection
    slot: GroupSlot
    submission: Submission
    now: float
    group_timeout_s: float

    def is_over(self, group: _GroupRow) -> bool:
        return group.opened_at is not None and group.opened_at + self.group_timeout_s < self.now


def withdraw(
    db: sqlite3.Connection, slot: GroupSlot, attempt: int, *, now: float, group_timeout_s: float
) -> str | None:
    """Note that a member comes no more, unless its response is there or a newer attempt was.

    Returns the id of its group; None: nothing has changed.
    """
    nobody = Submission(attempt, "", NOBODY, "")
    arrival = _Arrival(db, slot, nobody, now, group_timeout_s)
    group = _newest(arrival)
    if group is None or (slot.rounds and _starts_next_round(arrival, group)):
        group = _begin(arrival, 0 if group is None else group.round + 1)
    if group.judgement is not None or slot.member is None:
        return None
    values = _row(nobody, group.id, slot.member, "withdrawn")
    noted = db.execute(
        "INSERT INTO members (id, member, attempt, digest, text_digest, text, traits, presence) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id, member) DO UPDATE "
        "SET attempt = excluded.attempt, digest = '', presence = excluded.presence "
        "WHERE presence <> 'here' AND attempt <= excluded.attempt",
        values,
    )
    db.execute("UPDATE groups SET touched_at = ?, revision = revision + 1 WHERE id = ?", (now, group.id))
    return group.id if noted.rowcount else None


def enter(
    db: sqlite3.Connection, slot: GroupSlot, submission: Submission, *, now: float, group_timeout_s: float
) -> Membership:
    """Enter a submission; VerifierError where its group was given up or a newer attempt is there."""
    arrival = _Arrival(db, slot, submission, now, group_timeout_s)
    membership = _rejoin_if_same(arrival)
    if membership is not None:
        return membership
    group = _newest(arrival)
    if group is None or (slot.rounds and _starts_next_round(arrival, group)):
        group = _begin(arrival, 0 if group is None else group.round + 1)
    member = _free_number(arrival, group) if slot.member is None else slot.member
    rows = db.execute("SELECT attempt, presence FROM members WHERE id = ? AND member = ?", (group.id, member))
    attempt, presence = rows.fetchone() or (None, None)
    if slot.member is not None and submission.attempt < max(attempt or 0, _last_late(arrival, group, member)):
        raise superseded()
    if group.judgement is not None or (group.closed and presence != "here"):
        return _enter_late(arrival, group.id, member)
    values = _row(submission, group.id, member, "here")
    db.execute(
        "INSERT OR REPLACE INTO members (id, member, attempt, digest, text_digest, text, traits, presence) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    opened_at = now if group.opened_at is None or arrival.is_over(group) else group.opened_at
    db.execute(
        "UPDATE groups SET opened_at = ?, touched_at = ?, revision = revision + 1 WHERE id = ?",
        (opened_at, now, group.id),
    )
    return Membership(group.id, member, submission.attempt, submission.digest, late=False)


def _rejoin_if_same(arrival: _Arrival) -> Membership | None:
    db, slot, submission = arrival.db, arrival.slot, arrival.submission
    for table in ("late", "members"):
        presence = "'here'" if table == "late" else "presence"
        row = db.execute(
            f"SELECT one.id, member, {presence}, groups.judgement, groups.opened_at FROM {table} AS one "  # noqa: S608 - names of ours
            "JOIN groups ON groups.id = one.id "
            "WHERE key = ? AND digest = ? AND attempt = ? AND member = ifnull(?, member) ORDER BY round DESC LIMIT 1",
            (slot.key, submission.digest, submission.attempt, slot.member),
        ).fetchone()
        if row is not None:
            return _rejoin(arrival, row, late=table == "late")
    return None


def _rejoin(arrival: _Arrival, row: tuple[str, int, str, str | None, float | None], *, late: bool) -> Membership:
    group, member, presence, judgement, opened_at = row
    db, submission = arrival.db, arrival.submission
    if presence == "given_up":
        raise incomplete(arrival.slot.size, withdrawn=_count(db, group, "withdrawn"))
    db.execute(
        "DELETE FROM answers WHERE id = ?1 AND failed IS NOT NULL AND (first = ?2 OR second = ?2)",
        (group, submission.text_digest),
    )
    masked = judgement is not None and member in GroupJudgement.model_validate_json(judgement).masked
    if masked and not late:
        return _enter_late(arrival, group, member)
    restarted = opened_at is not None and opened_at + arrival.group_timeout_s < arrival.now
    db.execute(
        "UPDATE groups SET touched_at = ?1, opened_at = iif(?2 AND NOT closed, ?1, opened_at) WHERE id = ?3",
        (arrival.now, restarted, group),
    )
    return Membership(group, member, submission.attempt, submission.digest, late=late)


def _newest(arrival: _Arrival) -> _GroupRow | None:
    row = arrival.db.execute(
        "SELECT id, round, opened_at, closed, judgement FROM groups WHERE key = ? ORDER BY round DESC LIMIT 1",
        (arrival.slot.key,),
    ).fetchone()
    return None if row is None else _GroupRow(*row)


def _starts_next_round(arrival: _Arrival, group: _GroupRow) -> bool:
    """Say whether the submission begins the next round."""
    member = arrival.slot.member
    if group.judgement is not None or group.closed:
        return member is None or arrival.submission.attempt == 0
    return arrival.is_over(group) or (member is None and _count(arrival.db, group.id, "here") >= arrival.slot.size)


def _begin(arrival: _Arrival, number: int) -> _GroupRow:
    key = arrival.slot.key
    group = _GroupRow(f"{key}.{number}", number, opened_at=None, closed=False, judgement=None)
    arrival.db.execute(
        "INSERT INTO groups (id, key, round, size, touched_at) VALUES (?, ?, ?, ?, ?)",
        (group.id, key, number, arrival.slot.size, arrival.now),
    )
    return group


def _count(db: sqlite3.Connection, group: str, presence: Presence) -> int:
    row = db.execute("SELECT count(*) FROM members WHERE id = ? AND presence = ?", (group, presence)).fetchone()
    return int(row[0])


def _free_number(arrival: _Arrival, group: _GroupRow) -> int:
    rows = arrival.db.execute("SELECT member FROM members WHERE id = ? AND presence = 'here'", (group.id,))
    taken = {row[0] for row in rows}
    return next(number for number in range(arrival.slot.size) if number not in taken)


def _last_late(arrival: _Arrival, group: _GroupRow, member: int) -> int:
    """Return the highest attempt of that member that came late; 0: none did."""
    if not group.closed:
        return 0
    rows = arrival.db.execute("SELECT max(attempt) FROM late WHERE id = ? AND member = ?", (group.id, member))
    return int(rows.fetchone()[0] or 0)


def _enter_late(arrival: _Arrival, group: str, member: int) -> Membership:
    submission = arrival.submission
    arrival.db.execute(
        "INSERT OR IGNORE INTO late (id, member, attempt, digest, text_digest, text, traits, judgement) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        _row(submission, group, member, None),
    )
    arrival.db.execute("UPDATE groups SET touched_at = ? WHERE id = ?", (arrival.now, group))
    return Membership(group, member, submission.attempt, submission.digest, late=True)


def _row(submission: Submission, group: str, member: int, state: Presence | None) -> tuple[object, ...]:
    """Make a row of `members`, where `state` is its presence, or of `late`, whose judgement is not there yet."""
    candidate = submission.candidate
    named = (group, member, submission.attempt, submission.digest, submission.text_digest)
    return (*named, candidate.text, candidate.traits.model_dump_json(), state)
