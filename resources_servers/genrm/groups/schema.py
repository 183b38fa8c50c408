"""The tables that hold groups, and how they are opened.

One file per `state_dir`, in SQLite's WAL mode: several servers may share it, and what was written is there after a
        server was killed. Statements are short; a writer waits at most `BUSY_S` for another's.
groups  `opened_at`: since when (UTC, s since 1970) it waits for its members, NULL: nobody is there; `closed`: no
        further member is let in; `revision` counts every change of who belongs to it; `judgement`: once it is settled.
members of groups that were not settled when they came; `presence` is one of `records.Presence`. `late`: those that came
        afterwards, with judgements of their own.
text    stands last in a row: whoever does not ask for it does not read it.
answers a row without `answer` and `failed` is a claim: `worker` is asking.
"""

import sqlite3
from pathlib import Path

from paddock.errors import InfraError

FILE = "groups.sqlite3"
BUSY_S = 30.0
CHECKPOINT_PAGES = 8192
"""Of 4 KiB: how far the log grows before it is written back. A write-back waits for the disk, a group for nothing."""
VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS groups (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, round INTEGER NOT NULL, size INTEGER NOT NULL, opened_at REAL,
    touched_at REAL NOT NULL, closed INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 0, judgement TEXT
);
CREATE INDEX IF NOT EXISTS groups_of_key ON groups (key, round);
CREATE TABLE IF NOT EXISTS members (
    id TEXT NOT NULL, member INTEGER NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
    text_digest TEXT NOT NULL, traits TEXT NOT NULL, presence TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (id, member)
);
CREATE TABLE IF NOT EXISTS late (
    id TEXT NOT NULL, member INTEGER NOT NULL, attempt INTEGER NOT NULL, digest TEXT NOT NULL,
    text_digest TEXT NOT NULL, traits TEXT NOT NULL, judgement TEXT, text TEXT NOT NULL,
    PRIMARY KEY (id, member, attempt, digest)
);
CREATE TABLE IF NOT EXISTS answers (
    id TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, judge_idx INTEGER NOT NULL,
    worker TEXT NOT NULL, answer TEXT, failed TEXT,
    PRIMARY KEY (id, first, second, judge_idx)
) WITHOUT ROWID;
"""
TABLES_OF_GROUP = ("members", "late", "answers", "groups")


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the database of a folder, which exists; in autocommit mode, so transactions are begun by name.

    Raises InfraError for a file of another version.
    """
    path = folder / FILE
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise InfraError(
                f"{path}: written by another version of paddock ({version}, here {VERSION}): remove it, or name "
                "another `state_dir`",
                kind="group_state",
                retryable=False,
            )
        connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
