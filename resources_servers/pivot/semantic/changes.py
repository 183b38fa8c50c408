"""Whether two edits change the files alike, whatever tool they are made with.

Law     where the history shows a file's text, both edits are applied to it and the resulting texts compared
        (`paddock.edits.same_effect`); where it does not, the edits themselves are (`same_edit`). Both touch the same
        files. Equal edits are the same without looking.
Once    an editor refuses an old text that stands twice. Where the history does not show the file, a shorter old text
        than the expert's counts only when it is half of it, or `DISTINCT_CHARS`: less may well stand elsewhere too.
Trust   a text is believed only when the expert's edit can be made on it: otherwise the file has changed since.
"""

from typing import TypeGuard

from paddock.edits import Edit as FileEdit
from paddock.edits import EditError, Hunks, Replace, Text, apply_known, same_edit, same_effect
from paddock.resources_servers.pivot.semantic.findings import SAME, Finding, clip, describe, differ
from paddock.resources_servers.pivot.semantic.history import History
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolved_edits
from paddock.tools import Edit, same_json

DISTINCT_CHARS = 40
"""Characters, without blanks, of an old text that is taken to stand once where the expert's longer one does."""
MAX_FILES_LOOKED_UP = 64
"""Edits of more files than this are compared by themselves: the history is not read for each."""


def compare_edits(expected: Edit, actual: Edit, history: History, options: SemanticOptions) -> Finding:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    wanted = resolved_edits(expected, options.cwd)
    given = resolved_edits(actual, options.cwd)
    if wanted == given:
        return SAME
    mine = _by_path(wanted)
    if mine.keys() != _by_path(given).keys():
        return differ("path_differs", f"expected {describe(expected)}, came {describe(actual)}")
    texts = _believed(mine, history, options) if len(mine) <= MAX_FILES_LOOKED_UP else {}
    found = same_effect(wanted, given, texts) if texts else same_edit(wanted, given)
    vague = next((edit for edit in given if edit.path not in texts and _may_stand_twice(edit, mine, given)), None)
    if found.same and vague is not None:
        return differ("edit_differs", f"nothing shows that {clip(vague.old)} stands only once in {clip(vague.path)}")
    if found.same:
        return SAME
    return differ("edit_differs", f"{describe(expected)} would come out otherwise: {found.detail or found.reason}")


def _may_stand_twice(edit: FileEdit, expected: dict[str, list[FileEdit]], actual: list[FileEdit]) -> TypeGuard[Replace]:
    """Whether a replacement's old text is so little of the expert's that the file may hold it elsewhere too."""
    if not isinstance(edit, Replace) or edit.replace_all:
        return False
    shown = sum(_ink(old) for each in expected[edit.path] for old in _old_texts(each))
    share = shown / sum(each.path == edit.path for each in actual)
    return _ink(edit.old) < min(DISTINCT_CHARS, share / 2)


def _old_texts(edit: FileEdit) -> list[str]:
    if isinstance(edit, Hunks):
        return ["\n".join(hunk.old) for hunk in edit.hunks]
    return [edit.old] if isinstance(edit, Replace) else []


def _ink(text: str) -> int:
    """Characters that are no blanks."""
    return len("".join(text.split()))


def _by_path(edits: list[FileEdit]) -> dict[str, list[FileEdit]]:
    found: dict[str, list[FileEdit]] = {}
    for edit in edits:
        found.setdefault(edit.path, []).append(edit)
    return found


def _believed(edits: dict[str, list[FileEdit]], history: History, options: SemanticOptions) -> dict[str, Text]:
    """Of each file the newest text that the history shows and on which the expert's edits of it can be made."""
    believed: dict[str, Text] = {}
    for path, own in edits.items():
        for text in history.texts(path, options.cwd):
            if _can_be_made(own, path, text):
                believed[path] = text
                break
    return believed


def _can_be_made(edits: list[FileEdit], path: str, text: Text) -> bool:
    try:
        apply_known(edits, {path: text})
    except EditError:
        return False
    return True
