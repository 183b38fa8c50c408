"""Errors of a patch or an edit: two plain ValueErrors, to which the caller gives an owner.

Units   `PatchError.line` is a 1-based line of the patch, its `*** Begin Patch` or the diff's first line being line 1.
        0: the patch as a whole.
Kinds   `no_match` the text or lines to change are not there; `ambiguous` they are there more than once; `missing_file`;
        `file_exists`; `line_range` a line number outside the file; `no_change` old and new text are equal;
        `no_history` nothing to undo; `unseen` the place is outside of the part of the file that is known.
"""

from typing import Literal

EditErrorKind = Literal[
    "no_match", "ambiguous", "missing_file", "file_exists", "line_range", "no_change", "no_history", "unseen"
]


class PatchError(ValueError):
    """The text is not a patch of the grammar that it was read with."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class EditError(ValueError):
    """The edit cannot be applied to the files at hand."""

    def __init__(self, message: str, path: str, kind: EditErrorKind) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.kind: EditErrorKind = kind
