"""Where a submission enters: which group and round, as which member, in time or late. One transaction each.

Same    a submission is the same again when its member number, attempt and digest are: it joins what it began, and
        failed comparisons of it are asked again. In a group that was given up it is told so again.
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
    Judgement,
    Place,
    Placed,
    Presence,
    Submission,
    incomplete,
    superseded,
)
from paddock.resources_servers.genrm.records import Candidate, Traits

NOBODY = Candidate(text="", traits=Traits(answer_chars=0, reasoning_chars=0, style_density=0.0))


class _Group(NamedTuple):
    id: str
    round: int
    opened_at: float | None
    closed: bool
    judgement: str | None


class _Entering(NamedTuple):
    db: sqlite3.Connection
    place: Place
    submission: Submission
    now: float
    group_timeout_s: float

    def is_over(self, group: _Group) -> bool:
        return group.opened_at is not None and group.opened_at + self.group_timeout_s < self.now


def withdraw(db: sqlite3.Connection, place: Place, attempt: int, *, now: float, group_timeout_s: float) -> str | None:
    """Note that a member comes no more, unless its response is there or a newer attempt was; the id of its group."""
    nobody = Submission(attempt, "", NOBODY, "")
    entering = _Entering(db, place, nobody, now, group_timeout_s)
    group = _newest(entering)
    if group is None or (place.rounds and _is_through(entering, group)):
        group = _begin(entering, 0 if group is None else group.round + 1)
    if group.judgement is not None or place.member is None:
        return None
    values = _row(nobody, group.id, place.member, "withdrawn")
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
    db: sqlite3.Connection, place: Place, submission: Submission, *, now: float, group_timeout_s: float
) -> Placed:
    entering = _Entering(db, place, submission, now, group_timeout_s)
    again = _same_again(entering)
    if again is not None:
        return again
    group = _newest(entering)
    if group is None or (place.rounds and _is_through(entering, group)):
        group = _begin(entering, 0 if group is None else group.round + 1)
    member = _free_number(entering, group) if place.member is None else place.member
    holder = db.execute("SELECT attempt, presence FROM members WHERE id = ? AND member = ?", (group.id, member))
    attempt, presence = holder.fetchone() or (None, None)
    if place.member is not None and submission.attempt < max(attempt or 0, _last_late(entering, group, member)):
        raise superseded()
    if group.judgement is not None or (group.closed and presence != "here"):
        return _enter_late(entering, group.id, member)
    values = _row(submission, group.id, member, "here")
    db.execute(
        "INSERT OR REPLACE INTO members (id, member, attempt, digest, text_digest, text, traits, presence) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    opened_at = now if group.opened_at is None or entering.is_over(group) else group.opened_at
    db.execute(
        "UPDATE groups SET opened_at = ?, touched_at = ?, revision = revision + 1 WHERE id = ?",
        (opened_at, now, group.id),
    )
    return Placed(group.id, member, submission.attempt, submission.digest, late=False)


def _same_again(entering: _Entering) -> Placed | None:
    db, place, submission = entering.db, entering.place, entering.submission
    for table in ("late", "members"):
        presence = "'here'" if table == "late" else "presence"
        found = db.execute(
            f"SELECT one.id, member, {presence}, groups.judgement, groups.opened_at FROM {table} AS one "  # noqa: S608 - names of ours
            "JOIN groups ON groups.id = one.id "
            "WHERE key = ? AND digest = ? AND attempt = ? AND member = ifnull(?, member) ORDER BY round DESC LIMIT 1",
            (place.key, submission.digest, submission.attempt, place.member),
        ).fetchone()
        if found is not None:
            return _joined(entering, found, late=table == "late")
    return None


def _joined(entering: _Entering, found: tuple[str, int, str, str | None, float | None], *, late: bool) -> Placed:
    group, member, presence, judgement, opened_at = found
    db, submission = entering.db, entering.submission
    if presence == "given_up":
        raise incomplete(entering.place.size, withdrawn=_count(db, group, "withdrawn"))
    db.execute(
        "DELETE FROM answers WHERE id = ?1 AND failed IS NOT NULL AND (first = ?2 OR second = ?2)",
        (group, submission.text_digest),
    )
    masked = judgement is not None and member in Judgement.model_validate_json(judgement).masked
    if masked and not late:
        return _enter_late(entering, group, member)
    restarted = opened_at is not None and opened_at + entering.group_timeout_s < entering.now
    db.execute(
        "UPDATE groups SET touched_at = ?1, opened_at = iif(?2 AND NOT closed, ?1, opened_at) WHERE id = ?3",
        (entering.now, restarted, group),
    )
    return Placed(group, member, submission.attempt, submission.digest, late=late)


def _newest(entering: _Entering) -> _Group | None:
    row = entering.db.execute(
        "SELECT id, round, opened_at, closed, judgement FROM groups WHERE key = ? ORDER BY round DESC LIMIT 1",
        (entering.place.key,),
    ).fetchone()
    return None if row is None else _Group(*row)


def _is_through(entering: _Entering, group: _Group) -> bool:
    """Whether the submission begins the next round."""
    member = entering.place.member
    if group.judgement is not None or group.closed:
        return member is None or entering.submission.attempt == 0
    return entering.is_over(group) or (member is None and _count(entering.db, group.id, "here") >= entering.place.size)


def _begin(entering: _Entering, number: int) -> _Group:
    key = entering.place.key
    group = _Group(f"{key}.{number}", number, opened_at=None, closed=False, judgement=None)
    entering.db.execute(
        "INSERT INTO groups (id, key, round, size, touched_at) VALUES (?, ?, ?, ?, ?)",
        (group.id, key, number, entering.place.size, entering.now),
    )
    return group


def _count(db: sqlite3.Connection, group: str, presence: Presence) -> int:
    found = db.execute("SELECT count(*) FROM members WHERE id = ? AND presence = ?", (group, presence)).fetchone()
    return int(found[0])


def _free_number(entering: _Entering, group: _Group) -> int:
    rows = entering.db.execute("SELECT member FROM members WHERE id = ? AND presence = 'here'", (group.id,))
    taken = {row[0] for row in rows}
    return next(number for number in range(entering.place.size) if number not in taken)


def _last_late(entering: _Entering, group: _Group, member: int) -> int:
    """The highest attempt of that member that came late."""
    if not group.closed:
        return 0
    rows = entering.db.execute("SELECT max(attempt) FROM late WHERE id = ? AND member = ?", (group.id, member))
    return int(rows.fetchone()[0] or 0)


def _enter_late(entering: _Entering, group: str, member: int) -> Placed:
    submission = entering.submission
    entering.db.execute(
        "INSERT OR IGNORE INTO late (id, member, attempt, digest, text_digest, text, traits, judgement) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        _row(submission, group, member, None),
    )
    entering.db.execute("UPDATE groups SET touched_at = ? WHERE id = ?", (entering.now, group))
    return Placed(group, member, submission.attempt, submission.digest, late=True)


def _row(submission: Submission, group: str, member: int, state: Presence | None) -> tuple[object, ...]:
    """Of `members`, where `state` is its presence, and of `late`, where it is a judgement that is not there yet."""
    candidate = submission.candidate
    named = (group, member, submission.attempt, submission.digest, submission.text_digest)
    return (*named, candidate.text, candidate.traits.model_dump_json(), state)
