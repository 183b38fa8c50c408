"""The step that a row starts from: an image that holds the files as the expert found them.

Row     `snapshot: {"image": NAME, "workdir": "/testbed"}`. The image is of this machine's store: one that a mined
        trajectory left, or the repository's own where the expert had changed nothing yet.
Errors  RowError naming the key.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paddock.errors import RowError, describe


class StepSnapshot(BaseModel):
    """Where both actions start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = Field(min_length=1)
    """An image or a snapshot that the store of `executed.sandbox` knows."""
    workdir: str = Field(pattern="^/")
    """The absolute directory in which tools run where a call names none."""


def read_snapshot(task: Mapping[str, Any]) -> StepSnapshot:
    """Read the row's snapshot; RowError where there is none that can be used."""
    if task.get("snapshot") is None:
        raise RowError(
            'snapshot: missing; the comparator `executed` needs {"image": NAME, "workdir": "/..."} of the step',
            kind="snapshot_missing",
        )
    try:
        return StepSnapshot.model_validate(task["snapshot"])
    except ValidationError as error:
        raise RowError(f"snapshot: {describe(error)}", kind="snapshot_invalid") from error
