"""What a person notes on rollouts: `notes.jsonl` beside a run, a line for each change; a rollout's last one counts.

Form    {"group", "member", "label", "text", "at"}: `label` one of `LABELS` or empty; `at` seconds since 1970 UTC. The
        journals' digests are not used: people edit this file.
Errors  RequestError: the folder can't be written, or a note is too long.
"""

import os
import time
from pathlib import Path
from typing import Literal

import orjson
from pydantic import Field, ValidationError

from paddock.errors import RequestError
from paddock.types import Record

NOTES = "notes.jsonl"
LABELS = ("good", "wrong verdict", "cheat")
MAX_TEXT = 10_000


class RolloutNote(Record):
    """What somebody noted on one rollout."""

    group: int
    member: int
    label: Literal["", "good", "wrong verdict", "cheat"] = ""
    text: str = Field(default="", max_length=MAX_TEXT)
    at: float = 0.0


def read_notes(folder: Path) -> list[RolloutNote]:
    """The latest note of each rollout; lines that hold none are left out."""
    latest: dict[tuple[int, int], RolloutNote] = {}
    try:
        lines = (folder / NOTES).read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    for line in lines:
        try:
            note = RolloutNote.model_validate_json(line)
        except ValidationError:
            continue
        latest[note.group, note.member] = note
    return [note for note in latest.values() if note.label or note.text]


def add_note(folder: Path, note: RolloutNote) -> RolloutNote:
    """Append a note, which replaces the rollout's earlier one; an empty one removes it."""
    note = note.model_copy(update={"at": time.time()})
    try:
        fd = os.open(folder / NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.write(fd, orjson.dumps(note.model_dump(), option=orjson.OPT_APPEND_NEWLINE))
        finally:
            os.close(fd)
    except OSError as error:
        raise RequestError(f"{folder / NOTES}: {error.strerror or error}", kind="notes_unwritable") from error
    return note
