"""Compares edits as they are given, where no text of the files is known.

Files    both must touch the same paths, compared as strings; normalising them is the caller's. Edits of different files
         have no order; a `Hunks` with `move_to` is its hunks and then a `Move`. Where a file is also edited under the
         path that another is moved to, only equal edits in equal order are the same.
Texts    where both begin with a `Write`, the file is known from then on, and its texts after all edits are compared.
         `create_only` is no difference: what the file was before is not known.
Changes  replacements and hunks by `paddock.edits.changes`: one by one in order; in any order where no change touches
         another's text; several of one side that make up one of the other; or core by core.
Others   inserts by line and text, replaced lines by lines and text, deletes, moves and undos exactly. A diff's hunk
         without old lines is an insert.
Errors   none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from paddock.edits.apply import apply_known
from paddock.edits.changes import (
    TextChange,
    anchors_agree,
    apply_to,
    as_whole_lines,
    cores_of,
    of_hunk,
    of_replace,
    same_change,
    same_cores,
)
from paddock.edits.comparison import EffectComparison, differs, same_by, same_text, weakest
from paddock.edits.errors import EditError
from paddock.edits.model import Delete, Edit, Hunks, Insert, Move, Replace, ReplaceLines, Undo, Write

FREE_ORDER = 32
"""Longer lists of changes are compared in their order only."""

_Item = TextChange | Write | Insert | ReplaceLines | Delete | Move | Undo


def same_edit(expected: Sequence[Edit], actual: Sequence[Edit]) -> EffectComparison:
    """Whether both do the same to every file on which both can be done, by the rules above."""
    flat = _split_moves(expected), _split_moves(actual)
    if flat[0] == flat[1]:
        return same_by("equal_edits")
    mine, others = (_by_path(edits) for edits in flat)
    targets = _targets(mine), _targets(others)
    if targets[0] != targets[1]:
        only = sorted(targets[0] ^ targets[1])
        return differs("files", f"only one of them touches {', '.join(only)[:200]}")
    if any(edit.to in by_path for by_path in (mine, others) for edit in _moves(by_path)):
        return differs("files", "a file is edited under a path that another is moved to")
    return weakest(_same_file(mine.get(path, []), others.get(path, [])) for path in sorted(mine.keys() | others.keys()))


def _split_moves(edits: Sequence[Edit]) -> list[Edit]:
    flat: list[Edit] = []
    for edit in edits:
        if isinstance(edit, Hunks) and edit.move_to is not None:
            flat += [replace(edit, move_to=None), Move(edit.path, edit.move_to)]
        else:
            flat.append(edit)
    return flat


def _by_path(edits: Sequence[Edit]) -> dict[str, list[Edit]]:
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    return by_path


def _moves(by_path: dict[str, list[Edit]]) -> list[Move]:
    return [edit for edits in by_path.values() for edit in edits if isinstance(edit, Move)]


def _targets(by_path: dict[str, list[Edit]]) -> set[str]:
    return set(by_path) | {edit.to for edit in _moves(by_path)}


def _same_file(expected: list[Edit], actual: list[Edit]) -> EffectComparison:
    if expected == actual:
        return same_by("equal_edits")
    if expected and actual and isinstance(expected[0], Write) and isinstance(actual[0], Write):
        return _same_result(expected, actual)
    runs = _runs(expected), _runs(actual)
    kinds = [[type(run[0]) for run in side] for side in runs]
    if kinds[0] != kinds[1]:
        return differs("kind", f"{_kind_names(kinds[0])} and {_kind_names(kinds[1])}")
    return weakest(_same_run(mine, others) for mine, others in zip(*runs, strict=True))


def _kind_names(kinds: Sequence[type]) -> str:
    return " + ".join(kind.__name__ for kind in kinds) or "nothing"


def _same_result(expected: list[Edit], actual: list[Edit]) -> EffectComparison:
    path = expected[0].path
    try:
        texts = [apply_known(edits, {}).get(path) for edits in (expected, actual)]
    except EditError as error:
        return differs("text", error.message)
    left, right = texts
    gone = left is None and right is None
    if gone or (left is not None and right is not None and same_text(left.text, right.text)):
        return same_by("equal_text")
    return differs("text", f"{path} ends up with other text")


def _runs(edits: Sequence[Edit]) -> list[list[_Item]]:
    """The items of the edits, changes that follow each other as one run, every other item alone."""
    runs: list[list[_Item]] = []
    for item in _items(edits):
        if runs and isinstance(item, TextChange) and isinstance(runs[-1][0], TextChange):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _items(edits: Sequence[Edit]) -> Iterator[_Item]:
    for edit in edits:
        if isinstance(edit, Replace):
            yield of_replace(edit)
        elif isinstance(edit, Hunks):
            yield from _hunk_items(edit)
        else:
            yield edit


def _hunk_items(edit: Hunks) -> Iterator[_Item]:
    drift = 0
    for hunk in edit.hunks:
        if hunk.start is not None and not hunk.old:
            yield Insert(edit.path, hunk.start + drift, "\n".join(hunk.new))
        else:
            yield of_hunk(hunk)
        drift += len(hunk.new) - len(hunk.old)


def _same_run(expected: list[_Item], actual: list[_Item]) -> EffectComparison:
    mine = [item for item in expected if isinstance(item, TextChange)]
    others = [item for item in actual if isinstance(item, TextChange)]
    if mine and others:
        return _same_changes(mine, others)
    left, right = expected[0], actual[0]
    if isinstance(left, ReplaceLines) and isinstance(right, ReplaceLines):
        same = (left.start, left.end) == (right.start, right.end) and _lines(left.text) == _lines(right.text)
    elif isinstance(left, Write) and isinstance(right, Write):
        same = same_text(left.text, right.text)
    else:
        same = left == right
    return same_by("equal_edits") if same else differs("text", "other lines or other text")


def _lines(text: str) -> str:
    return text + "\n" if text and not text.endswith("\n") else text


def _same_changes(expected: list[TextChange], actual: list[TextChange]) -> EffectComparison:
    in_order = _same_in_order(expected, actual)
    if in_order.same or len(expected) == len(actual) == 1:
        return in_order
    free = _same_in_any_order(expected, actual)
    if free.same:
        return free
    if _composes(actual, expected) or _composes(expected, actual):
        return same_by("contained")
    cores = same_cores(expected, actual)
    return cores if cores.same else in_order


def _same_in_order(expected: list[TextChange], actual: list[TextChange]) -> EffectComparison:
    if len(expected) != len(actual):
        return differs("text", f"{len(expected)} and {len(actual)} replacements")
    return weakest(same_change(left, right) for left, right in zip(expected, actual, strict=True))


def _same_in_any_order(expected: list[TextChange], actual: list[TextChange]) -> EffectComparison:
    failed = differs("text", "other replacements")
    if not 1 < len(expected) == len(actual) <= FREE_ORDER or not (
        _are_independent(expected) and _are_independent(actual)
    ):
        return failed
    left = list(actual)
    cores = cache(cores_of)
    matches: list[EffectComparison] = []
    for change in expected:
        results = [same_change(change, other, cores) for other in left]
        at = next((index for index, result in enumerate(results) if result.same), None)
        if at is None:
            return failed
        matches.append(results[at])
        del left[at]
    return weakest(matches)


def _are_independent(changes: list[TextChange]) -> bool:
    """True when no change's old text is in what another one replaces or writes."""
    texts = [change.old.strip("\n") for change in changes]
    return not any(
        text in other.old or text in other.new
        for index, text in enumerate(texts)
        for position, other in enumerate(changes)
        if position != index
    )


def _composes(fine: list[TextChange], coarse: list[TextChange]) -> bool:
    """True when the finer changes, each applied within a coarser one, together make the coarser ones."""
    if len(fine) <= len(coarse) or any(change.replace_all for change in fine + coarse):
        return False
    if any(change.whole_lines for change in fine):
        coarse = [change if change.whole_lines else as_whole_lines(change) for change in coarse]
    texts = list(coarse)
    for change in fine:
        applied = [(index, text) for index, big in enumerate(texts) if (text := apply_to(change, big)) is not None]
        if len(applied) != 1 or not anchors_agree(change, coarse[applied[0][0]]):
            return False
        index, text = applied[0]
        texts[index] = texts[index]._replace(old=text)
    return all(change.old == change.new for change in texts)
