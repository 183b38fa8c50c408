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
from paddock.edits import EditError, Hunks, KnownText, Replace, apply_known, count_changes, same_edit, same_effect
from paddock.edits.structure import FREE_ORDER
from paddock.resources_servers.pivot.semantic.history import FileHistory
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, describe, differ
from paddock.resources_servers.pivot.semantic.options import SemanticOptions
from paddock.resources_servers.pivot.semantic.paths import resolve_edits
from paddock.shell import take
from paddock.tools import Edit, same_json

DISTINCT_CHARS = 40
"""Characters, without blanks, of an old text that is taken to stand once where the expert's longer one does."""
MAX_CHANGES = 200
"""Replacements and hunks of one call that are compared one by one; more are the same as equal ones only."""
MAX_FILES_LOOKED_UP = 64
"""Edits of more files than this are compared by themselves: the history is not read for each."""
_STEPS_PER_CHANGE, _PAIRS_PER_STEP, _CHARS_PER_STEP = 5, 4, 100
_CHANGED_CHARS_PER_STEP = 20_000


def compare_edits(expected: Edit, actual: Edit, history: FileHistory, options: SemanticOptions) -> MatchResult:
    if not same_json(expected.rest, actual.rest):
        return differ("arguments_differ", f"of {describe(expected)} other arguments differ")
    if expected.edits == actual.edits:
        return SAME
    wanted = resolve_edits(expected, options.cwd)
    given = resolve_edits(actual, options.cwd)
    if wanted == given:
        return SAME
    if max(count_changes(wanted), count_changes(given)) > MAX_CHANGES:
        return differ("edit_differs", f"not decided: more than {MAX_CHANGES} changes in one call, which are not equal")
    mine = _by_path(wanted)
    if mine.keys() != _by_path(given).keys():
        return differ("path_differs", f"expected {describe(expected)}, came {describe(actual)}")
    _take_steps(wanted, given)
    texts = _trusted_texts(mine, history) if len(mine) <= MAX_FILES_LOOKED_UP else {}
    comparison = same_effect(wanted, given, texts) if texts else same_edit(wanted, given)
    vague = next((edit for edit in given if edit.path not in texts and _may_stand_twice(edit, mine, given)), None)
    if comparison.same and vague is not None:
        return differ("edit_differs", f"nothing shows that {clip(vague.old)} stands only once in {clip(vague.path)}")
    if comparison.same:
        return SAME
    return differ(
        "edit_differs", f"{describe(expected)} would come out otherwise: {comparison.detail or comparison.reason}"
    )


def _take_steps(wanted: list[FileEdit], given: list[FileEdit]) -> None:
    """Take the steps in which edits are compared by themselves."""
    own, other = count_changes(wanted), count_changes(given)
    # In any order, or put together from finer ones, each of one side meets each of the other.
    pairs = own * other if own != other or own <= FREE_ORDER else own
    chars = sum(map(_chars, (*wanted, *given)))
    take(_STEPS_PER_CHANGE * (own + other) + pairs // _PAIRS_PER_STEP + chars // _CHARS_PER_STEP)


def _chars(edit: FileEdit) -> int:
    if isinstance(edit, Hunks):
        return sum(len(line) for hunk in edit.hunks for line in (*hunk.old, *hunk.new))
    return len(edit.old) + len(edit.new) if isinstance(edit, Replace) else 0


def compare_unseen(wanted: list[FileEdit], given: list[FileEdit]) -> MatchResult:
    """Compare edits, with resolved paths, of files of which the history shows nothing."""
    if wanted != given and max(count_changes(wanted), count_changes(given)) > MAX_CHANGES:
        return differ("edit_differs", f"not decided: more than {MAX_CHANGES} changes in one call, which are not equal")
    _take_steps(wanted, given)
    mine = _by_path(wanted)
    comparison = same_edit(wanted, given)
    if comparison.same and any(edit.path in mine and _may_stand_twice(edit, mine, given) for edit in given):
        return differ("edit_differs", "nothing shows that what is replaced stands only once")
    return SAME if comparison.same else differ("edit_differs", comparison.detail or comparison.reason)


def _may_stand_twice(edit: FileEdit, expected: dict[str, list[FileEdit]], actual: list[FileEdit]) -> TypeGuard[Replace]:
    """Say whether a replacement's old text is so little of the expert's that the file may hold it elsewhere too."""
    if not isinstance(edit, Replace) or edit.replace_all:
        return False
    shown = sum(_ink(old) for other in expected[edit.path] for old in _old_texts(other))
    share = shown / sum(other.path == edit.path for other in actual)
    return _ink(edit.old) < min(DISTINCT_CHARS, share / 2)


def _old_texts(edit: FileEdit) -> list[str]:
    if isinstance(edit, Hunks):
        return ["\n".join(hunk.old) for hunk in edit.hunks]
    return [edit.old] if isinstance(edit, Replace) else []


def _ink(text: str) -> int:
    """Count the characters that are no blanks."""
    return len("".join(text.split()))


def _by_path(edits: list[FileEdit]) -> dict[str, list[FileEdit]]:
    by_path: dict[str, list[FileEdit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    return by_path


def _trusted_texts(edits: dict[str, list[FileEdit]], history: FileHistory) -> dict[str, KnownText]:
    """Return of each file the newest text that the history shows and that takes the expert's edits of it."""
    trusted: dict[str, KnownText] = {}
    for path, own in edits.items():
        for text in history.texts(path):
            if _can_be_made(own, path, text):
                trusted[path] = text
                break
    return trusted


def take_for_text(text: KnownText) -> None:
    """Take the steps in which a known text is changed."""
    take(1 + len(text.text) // _CHANGED_CHARS_PER_STEP)


def _can_be_made(edits: list[FileEdit], path: str, text: KnownText) -> bool:
    take_for_text(text)
    try:
        apply_known(edits, {path: text})
    except EditError:
        return False
    return True
