"""Changes of files: by the texts that result, whatever they are made with.

Source  edits of tools; `cat`, `tee`, `echo` and `printf` into a file; `sed -i`, `perl -pi`; Python and patches, from a
        here-document or from a scratch file below /tmp that the same call writes; `rm`, `unlink`, `mv`, `truncate`.
Law     the same files are changed. Where the history shows a file's text, and the expert's change can be made on it,
        both are made and the texts compared (`text_looks`). Where it does not, the changes are, as edits: then a
        substitution of a text that is long enough to stand once (`DISTINCT_LITERAL_CHARS`) is a replacement of it.
Joined  neighbours are one record. A scratch file that a later command reads is no change of its own.
Errors  None: something else is done, or a part of it is not known.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_values

from paddock.edits import (
    Delete,
    EditError,
    Hunks,
    KnownText,
    Move,
    Replace,
    Undo,
    Write,
    apply_known,
    connected_paths,
    count_changes,
    paths_of,
)
from paddock.edits import Edit as FileEdit
from paddock.resources_servers.pivot.semantic.changes import (
    MAX_CHANGES,
    MAX_FILES_LOOKED_UP,
    compare_unseen,
    take_for_text,
)
from paddock.resources_servers.pivot.semantic.intents.bare_commands import BareCommand
from paddock.resources_servers.pivot.semantic.intents.change_programs import (
    Change,
    FileFunction,
    ScratchUse,
    changes_of,
)
from paddock.resources_servers.pivot.semantic.intents.kinds import IntentKind, Surroundings
from paddock.resources_servers.pivot.semantic.intents.text_functions import is_distinct
from paddock.resources_servers.pivot.semantic.intents.text_looks import same_fragment_looks, same_looks
from paddock.resources_servers.pivot.semantic.match_results import SAME, MatchResult, clip, differ
from paddock.resources_servers.pivot.semantic.paths import resolve_edits
from paddock.tools import Action, Edit

_SCRATCH = "/tmp/"  # noqa: S108 - a name to compare with, nothing is written there


@dataclass(frozen=True, slots=True)
class FileChanges:
    """What is done to files, in order."""

    steps: tuple[Change, ...]


def _of_action(action: Action, cwd: str | None) -> FileChanges | None:
    if not isinstance(action, Edit) or action.rest:
        return None
    return FileChanges(tuple(resolve_edits(action, cwd)))


def _of_command(command: BareCommand) -> FileChanges | None:
    steps = changes_of(command)
    return FileChanges(tuple(steps)) if steps else None


def written_by(changes: FileChanges) -> set[str]:
    """Return the paths of files whose text is given whole."""
    return {step.path for step in changes.steps if isinstance(step, Write)}


def only_writes(changes: FileChanges) -> bool:
    """Say whether all that is done is to write texts that are given whole."""
    return all(isinstance(step, Write) for step in changes.steps)


def changed(changes: FileChanges, path: str, texts: Sequence[KnownText]) -> list[KnownText] | None:
    """Return what the texts known of a file become by changes; None: what is done to it is not known."""
    steps = [step for step in changes.steps if path in paths_of(step)]
    if any(isinstance(step, ScratchUse | Undo | Move) for step in (*changes.steps, *steps)):
        return None
    writes = [index for index, step in enumerate(steps) if isinstance(step, Write)]
    if writes and isinstance(last := steps[writes[-1]], Write):
        texts, steps = [KnownText.whole(last.text)], steps[writes[-1] + 1 :]
    for text in texts:
        take_for_text(text)
    after = [_after(steps, {path: text}) for text in texts]
    return [files[path] for files in after if isinstance(files, dict) and path in files]


def runs_unknown_script(changes: FileChanges, written: Collection[str]) -> bool:
    """Whether all that is done is to run a script; not a scratch file among the `written`, which makes its changes."""
    match changes.steps:
        case (ScratchUse(means="python", source=source),):
            return source not in written or not source.startswith(_SCRATCH)
        case _:
            return False


def _join(records: Sequence[FileChanges]) -> list[FileChanges]:
    """Put the changes of a row into one, and what a scratch file holds in place of its use."""
    steps: list[Change] = []
    used: set[str] = set()
    for step in (step for record in records for step in record.steps):
        if isinstance(step, ScratchUse):
            made = [other for other in steps if step.source in paths_of(other)]
            written = made[0] if len(made) == 1 and step.source.startswith(_SCRATCH) else None
            later = step.changes(written.text) if isinstance(written, Write) else None
            if later is None:
                return [FileChanges((*steps, step))]
            used.add(step.source)
            steps.extend(later)
        elif isinstance(step, Delete) and step.path in used:
            continue
        else:
            steps.append(step)
    kept = [step for step in steps if not (isinstance(step, Write) and step.path in used)]
    return [FileChanges(tuple(kept))]


def _compare(expected: FileChanges, actual: FileChanges, surroundings: Surroundings) -> MatchResult:
    if any(isinstance(step, ScratchUse) for step in (*expected.steps, *actual.steps)):
        return differ("edit_differs", "what is in a file that is applied or run is not known")
    if expected == actual:
        return SAME
    if max(count_changes(expected.steps), count_changes(actual.steps)) > MAX_CHANGES:
        return differ("edit_differs", f"not decided: more than {MAX_CHANGES} changes, which are not equal")
    own = _absolute_as(expected.steps, _paths(actual.steps))
    other = _absolute_as(actual.steps, _paths(own))
    if _paths(own) != _paths(other):
        return differ("path_differs", f"expected a change of {_shown(own)}, came one of {_shown(other)}")
    for paths in connected_paths((*own, *other)):
        result = _compare_files(_on(own, paths), _on(other, paths), sorted(paths), surroundings)
        if not result.same:
            return result
    return SAME


def _compare_files(own: list[Change], other: list[Change], paths: list[str], surroundings: Surroundings) -> MatchResult:
    """Compare the changes of files that moves connect, of which there is mostly one."""
    before = _trusted(own, paths, surroundings)
    mine, theirs = _after(own, before), _after(other, before)
    known = before.keys() >= set(paths) and all(text.complete for text in before.values())
    if isinstance(theirs, EditError) and before and (known or theirs.kind != "unseen"):
        return differ("edit_differs", f"it cannot be made: {clip(theirs.message)}")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return _compare_texts(before, mine, theirs, surroundings)
    return _compare_steps(own, other, surroundings)


def _compare_texts(
    before: dict[str, KnownText], mine: dict[str, KnownText], theirs: dict[str, KnownText], surroundings: Surroundings
) -> MatchResult:
    if mine.keys() != theirs.keys():
        return differ("edit_differs", f"only one leaves {clip(min(mine.keys() ^ theirs.keys()))}")
    for path, text in mine.items():
        other = theirs[path]
        looks = surroundings.options.edit_looks_count or not text.complete
        if (text.first_line, text.complete) != (other.first_line, other.complete):
            return differ("edit_differs", f"other parts of {clip(path)} would be known")
        old = before[path].text if path in before else ""
        same = text.text.removesuffix("\n") == other.text.removesuffix("\n")
        if not same and (looks or not same_looks(path, old, text.text, other.text)):
            return differ("edit_differs", f"{clip(path)} would come out otherwise")
    return SAME


def _compare_steps(own: list[Change], other: list[Change], surroundings: Surroundings) -> MatchResult:
    """Compare changes of files whose texts are not known."""
    if own == other or [_bare(step) for step in own] == [_bare(step) for step in other]:
        return SAME
    looks = None if surroundings.options.edit_looks_count else same_fragment_looks
    wanted = _as_edits(own, ())
    given = _as_edits(other, own)
    if wanted is None or given is None:
        return differ("edit_differs", "it is not known what the files hold, which decides what the changes do")
    result = compare_unseen(wanted, given)
    if result.same or looks is None or len(wanted) != 1 or len(given) != 1:
        return result
    first, second = wanted[0], given[0]
    if not (isinstance(first, Replace) and isinstance(second, Replace)) or first.replace_all or second.replace_all:
        return result
    same = first.old == second.old and looks(first.path, first.old, first.new, second.new)
    return SAME if same else result


def _as_edits(steps: list[Change], expert: Sequence[Change]) -> list[FileEdit] | None:
    """Return the steps as edits; a substitution is one where its text stands once. None: one of them cannot be.

    `expert`: the expert's steps; what a replacement of his looks for stands once.
    """
    single = {step.old for step in expert if isinstance(step, Replace) and not step.replace_all}
    edits: list[FileEdit] = []
    for step in steps:
        edit = step.function.replacement(step.path) if isinstance(step, FileFunction) else step
        if edit is None or isinstance(edit, ScratchUse):
            return None
        if edit is not step and isinstance(edit, Replace) and not (is_distinct(edit.old) or edit.old in single):
            return None
        edits.append(edit)
    return edits


def _bare(step: Change) -> Change:
    """Return the step without what does not matter where its old text is long: whether it is made more than once."""
    edit = step.function.replacement(step.path) if isinstance(step, FileFunction) else None
    return edit if edit is not None and is_distinct(edit.old) else step


def _trusted(own: list[Change], paths: list[str], surroundings: Surroundings) -> dict[str, KnownText]:
    """Return of each file the newest text that the history shows and that takes the expert's changes of it."""
    if len(paths) > MAX_FILES_LOOKED_UP:
        return {}
    found: dict[str, KnownText] = {}
    for path in paths:
        for text in surroundings.history.texts(path):
            take_for_text(text)
            steps = [step for step in own if step.path == path]
            after = _after(steps, {path: text})
            if isinstance(after, dict) and after.get(path) != text:
                found[path] = text
                break
    return found


def _after(steps: Sequence[Change], before: dict[str, KnownText]) -> dict[str, KnownText] | EditError:
    """Return the files after the steps, or why one of them cannot be made; `unseen`: it is not known what it does."""
    files = before
    try:
        if not any(isinstance(step, FileFunction) for step in steps):
            return apply_known([step for step in steps if not isinstance(step, FileFunction | ScratchUse)], files)
        for step in steps:
            if isinstance(step, FileFunction):
                text = files.get(step.path)
                changed = step.function.apply(text) if text is not None else None
                if changed is None:
                    return EditError(f"{step.path} is not known", step.path, "unseen")
                files = {**files, step.path: changed}
            elif isinstance(step, Undo | ScratchUse):
                return EditError("it is not known what is undone", step.path, "unseen")
            else:
                files = apply_known([step], files)
    except EditError as error:
        return error
    return files


def _absolute_as(steps: Sequence[Change], paths: set[str]) -> tuple[Change, ...]:
    """Read the paths of a diff from the root where they are the expert's: `git diff --no-index` writes them so."""
    return tuple(
        with_values(step, path="/" + step.path)
        if isinstance(step, Hunks)
        and step.grammar == "diff"
        and step.move_to is None
        and step.path not in paths
        and "/" + step.path in paths
        else step
        for step in steps
    )


def _paths(steps: Sequence[Change]) -> set[str]:
    return {path for step in steps for path in paths_of(step)}


def _on(steps: Sequence[Change], paths: set[str]) -> list[Change]:
    return [step for step in steps if step.path in paths]


def _shown(steps: Sequence[Change]) -> str:
    return ", ".join(map(clip, sorted(_paths(steps))[:3]))


FILE_CHANGES = IntentKind(FileChanges, _of_action, _of_command, _compare, changes=True, join=_join)
