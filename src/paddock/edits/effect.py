"""Compares edits by what they do to the texts that are known.

Files    edits are compared file by file, files that a move connects together. Where the known text decides
         what an edit does, both sides are applied and the texts compared; else the edits themselves are, by
         `paddock.edits.structure`.
Failure  an edit that cannot be made is not the same as any other, not even as another such edit.
Partial  two edits of a range are the same when the ranges are equal afterwards; `paddock.edits.apply` states what of a
         range an edit may rely on.
Errors   none.
"""

from collections.abc import Iterable, Mapping, Sequence

from paddock.edits.apply import apply_known
from paddock.edits.comparison import EffectComparison, Reason, differs, same_by, same_text, weakest
from paddock.edits.errors import EditError
from paddock.edits.model import Edit, FileChange, KnownText, paths_of
from paddock.edits.structure import same_edit


def same_effect(
    expected: Sequence[Edit], actual: Sequence[Edit], files: Mapping[str, KnownText | str]
) -> EffectComparison:
    """Whether both leave the same files behind; files that `files` lacks are unknown."""
    groups = connected_paths([*expected, *actual])
    return weakest(
        _same_group(
            [edit for edit in expected if edit.path in paths],
            [edit for edit in actual if edit.path in paths],
            {path: files[path] for path in paths if path in files},
        )
        for paths in groups
    )


def connected_paths(changes: Iterable[FileChange]) -> list[set[str]]:
    """The paths of the changes, in sets that no change reaches across."""
    groups: list[set[str]] = []
    for change in changes:
        paths = paths_of(change)
        apart = [group for group in groups if group.isdisjoint(paths)]
        groups = [*apart, paths.union(*(group for group in groups if not group.isdisjoint(paths)))]
    return groups


def _same_group(
    expected: Sequence[Edit], actual: Sequence[Edit], files: Mapping[str, KnownText | str]
) -> EffectComparison:
    mine, others = _after(expected, files), _after(actual, files)
    failures = [side for side in (mine, others) if isinstance(side, EditError) and side.kind != "unseen"]
    if failures:
        failure: Reason = "expected_fails" if failures[0] is mine else "actual_fails"
        reason = "both_fail" if len(failures) > 1 else failure
        return differs(reason, "; ".join(error.message for error in failures))
    if isinstance(mine, EditError) or isinstance(others, EditError):
        return same_edit(expected, actual)
    for path in sorted(mine.keys() | others.keys()):
        ours, theirs = mine.get(path), others.get(path)
        if ours is None or theirs is None:
            return differs("files", f"only one leaves {path}")
        if (ours.first_line, ours.complete) != (theirs.first_line, theirs.complete) or not same_text(
            ours.text, theirs.text
        ):
            return differs("text", f"{path} ends up with other text")
    return same_by("equal_text")


def _after(edits: Sequence[Edit], files: Mapping[str, KnownText | str]) -> dict[str, KnownText] | EditError:
    try:
        return apply_known(edits, files)
    except EditError as error:
        return error
