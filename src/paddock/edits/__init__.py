"""Patch grammars and edits on text, as pure functions: what a tool call would do to a file, without a file.

Parsers    `parse_codex_patch`, `parse_unified_diff`: text to edits. `parse_numbered`, `assemble`: outputs to texts.
Apply      `apply` on whole files, `apply_known` where only parts of the files are known.
Compare    `same_effect` by what edits do to known files; `same_edit` by the edits alone.
Errors     PatchError (not of the grammar), EditError (cannot be made); comparisons raise neither.
"""

from paddock.edits.apply import apply, apply_known
from paddock.edits.codex import parse_codex_patch
from paddock.edits.comparison import EffectComparison, Reason
from paddock.edits.effect import connected_paths, same_effect
from paddock.edits.errors import EditError, EditErrorKind, PatchError
from paddock.edits.model import (
    Delete,
    Edit,
    Hunk,
    Hunks,
    Insert,
    KnownText,
    Move,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    count_changes,
    paths_of,
)
from paddock.edits.structure import same_edit
from paddock.edits.unified import parse_unified_diff
from paddock.edits.views import assemble, parse_numbered, strip_exec_header

__all__ = [
    "Delete",
    "Edit",
    "EditError",
    "EditErrorKind",
    "EffectComparison",
    "Hunk",
    "Hunks",
    "Insert",
    "KnownText",
    "Move",
    "PatchError",
    "Reason",
    "Replace",
    "ReplaceLines",
    "Undo",
    "Write",
    "apply",
    "apply_known",
    "assemble",
    "connected_paths",
    "count_changes",
    "parse_codex_patch",
    "parse_numbered",
    "parse_unified_diff",
    "paths_of",
    "same_edit",
    "same_effect",
    "strip_exec_header",
]
