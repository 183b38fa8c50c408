"""What holds for every text: patches of one change agree, comparisons are sound and symmetric, errors are typed."""

import contextlib
import time
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paddock.edits import (
    Delete,
    Edit,
    EditError,
    Hunk,
    Hunks,
    Insert,
    KnownText,
    Move,
    PatchError,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    apply,
    assemble,
    parse_codex_patch,
    parse_numbered,
    parse_unified_diff,
    same_edit,
    same_effect,
)

some = settings(max_examples=80, deadline=None, derandomize=True, database=None)


class Versions(NamedTuple):
    """Lines of a file before and after. Within one version no line is there twice."""

    before: list[str]
    after: list[str]


@st.composite
def versions(draw: st.DrawFn) -> Versions:
    before, after = [], []
    steps = draw(st.lists(st.sampled_from(["keep", "keep", "keep", "drop", "add", "change"]), min_size=1, max_size=14))
    for number, step in enumerate(steps):
        if step != "add":
            before.append(f"line {number:02}")
        if step == "keep":
            after.append(f"line {number:02}")
        if step in ("add", "change"):
            after.append(f"new {number:02}")
    assume(before and before != after)
    return Versions(before, after)


def text_of(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)


def as_diff(before: str, after: str, context: int) -> str:
    parts = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), "a/f", "b/f", n=context)
    return "".join(part if part.endswith("\n") else part + "\n\\ No newline at end of file\n" for part in parts)


def as_patch(both: Versions, context: int) -> str:
    lines = ["*** Begin Patch", "*** Update File: f"]
    for group in SequenceMatcher(None, *both, autojunk=False).get_grouped_opcodes(context):
        lines.append("@@")
        for tag, a, b, c, d in group:
            lines += [(" " if tag == "equal" else "-") + line for line in both.before[a:b]]
            lines += ["+" + line for line in both.after[c:d] if tag != "equal"]
    return "\n".join([*lines, "*** End Patch"])


def as_replaces(both: Versions, above: int, below: int) -> list[Edit]:
    """One replacement per difference, each with some lines around; the lines above are as the ones before left them."""
    edits: list[Edit] = []
    before, after = both
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            head, tail = after[max(c - above, 0) : c], before[b : b + below]
            edits.append(Replace("f", text_of([*head, *before[a:b], *tail]), text_of([*head, *after[c:d], *tail])))
    return edits


TEXTS = st.lists(st.sampled_from(["a", "b", "  a", "", "c\r", "--- x", "@@"]), max_size=12)


@some
@given(TEXTS, TEXTS, st.booleans(), st.booleans(), st.integers(0, 3))
def test_a_unified_diff_of_two_texts_turns_one_into_the_other(
    before: list[str], after: list[str], before_ends: bool, after_ends: bool, context: int
) -> None:
    one, other = (
        text if ends else text.removesuffix("\n")
        for text, ends in ((text_of(before), before_ends), (text_of(after), after_ends))
    )
    one, other = one.replace("\r", "~"), other.replace("\r", "~")
    assume(one != other)
    edits = parse_unified_diff(as_diff(one, other, context))
    assert apply(edits, {"f": one}) == {"f": other}


@some
@given(versions(), st.integers(1, 3))
def test_a_diff_a_patch_and_replacements_of_one_change_have_one_effect(both: Versions, context: int) -> None:
    files = {"f": text_of(both.before)}
    after = text_of(both.after)
    forms: list[list[Edit]] = [
        [Write("f", after)],
        parse_unified_diff(as_diff(files["f"], after, context)),
        parse_codex_patch(as_patch(both, context)),
        as_replaces(both, len(both.after), context),
    ]
    for form in forms:
        assert apply(form, files) == {"f": after}
        assert same_effect(forms[0], form, files) == same_effect(form, forms[0], files) == (True, "equal_text", "")
        assert same_effect(form, forms[1], {"f": KnownText(7, files["f"], complete=False)}).same == (
            form is not forms[0]
        )


@some
@given(versions(), st.integers(1, 3), st.integers(1, 3))
def test_a_patch_and_a_diff_with_more_context_are_the_same_edit(both: Versions, one: int, other: int) -> None:
    patch = parse_codex_patch(as_patch(both, one))
    diff = parse_unified_diff(as_diff(text_of(both.before), text_of(both.after), other))
    additions = any(isinstance(edit, Hunks) and not all(hunk.old for hunk in edit.hunks) for edit in [*patch, *diff])
    assert additions or same_edit(patch, diff).same


@st.composite
def edits_of(draw: st.DrawFn, both: Versions) -> list[Edit]:
    """The change of the versions, or a like one, in one of its forms."""
    after = draw(st.sampled_from([both.after, both.after, [*both.after[:-1], "other"], both.before[1:]]))
    given = Versions(both.before, after)
    context = draw(st.integers(1, 3))
    if given.before == after or not after:
        return [Replace("f", both.before[0], "other")]
    form: Callable[[], list[Edit]] = draw(
        st.sampled_from(
            [
                lambda: parse_unified_diff(as_diff(text_of(given.before), text_of(after), context)),
                lambda: parse_codex_patch(as_patch(given, context)),
                lambda: as_replaces(given, context, context),
            ]
        )
    )
    return form()


@some
@given(st.data())
def test_edits_that_are_the_same_without_the_text_are_so_with_it(data: st.DataObject) -> None:
    both = data.draw(versions())
    one, other = data.draw(edits_of(both)), data.draw(edits_of(both))
    files = {"f": text_of(both.before)}
    assert same_edit(one, other).same == same_edit(other, one).same
    known = same_effect(one, other, files)
    if same_edit(one, other).same and not known.reason.endswith("fails") and known.reason != "both_fail":
        assert known.same


PIECES = st.text(alphabet="ab\n", min_size=1, max_size=4)


@some
@given(st.text(alphabet="ab\n", max_size=14), st.lists(st.tuples(PIECES, PIECES), min_size=2, max_size=4))
def test_replacements_that_contain_each_other_agree_on_every_text(text: str, pieces: list[tuple[str, str]]) -> None:
    for old, new in pieces:
        for head, tail in pieces:
            one, other = [Replace("f", old, new)], [Replace("f", head + old + tail, head + new + tail)]
            known = same_effect(one, other, {"f": text})
            if same_edit(one, other).same and known.reason in ("text", "equal_text"):
                assert known.same


LINES = st.sampled_from(
    [
        *("*** Begin Patch", "*** End Patch", "*** Update File: f", "*** Add File: g", "*** Delete File: f"),
        *("*** Move to: g", "*** End of File", "@@", "@@ a", "+a", "-a", " a", "a", "", "<<EOF", "EOF"),
        *("--- a/f", "+++ b/f", "--- /dev/null", "+++ /dev/null", "diff --git a/f b/f", "rename to g", "rename from f"),
        *("@@ -1 +1 @@", "@@ -1,2 +1 @@", "@@ -0,0 +1 @@", "\\ No newline at end of file", "new file mode 1"),
        *("     1\ta", "2: b", "<content>", "Output:", "(End of file"),
    ]
)
SCRAPS = st.lists(LINES | st.text(max_size=6), max_size=12).map("\n".join)
SMALL = st.sampled_from(["", "a", "b", "a\n", "a\nb\n", "\n", "a\r\n"])
HUNKS = st.builds(
    Hunk,
    st.lists(st.sampled_from([" a", "-a", "+b", " ", "-", "+"]), max_size=4).map(tuple),
    anchor=st.none() | SMALL,
    start=st.none() | st.integers(0, 3),
    at_end=st.booleans(),
    final_newline=st.booleans(),
)
PATHS = st.sampled_from(["f", "g"])
GRAMMARS = st.sampled_from(["codex", "diff"])
EDITS = st.lists(
    st.one_of(
        st.builds(Write, PATHS, SMALL, st.booleans()),
        st.builds(Replace, PATHS, SMALL, SMALL, st.booleans()),
        st.builds(Insert, PATHS, st.integers(-1, 4), SMALL),
        st.builds(ReplaceLines, PATHS, st.integers(-1, 4), st.none() | st.integers(-1, 4), SMALL),
        st.builds(
            Hunks, PATHS, st.lists(HUNKS, max_size=2).map(tuple), st.none() | PATHS, st.sampled_from(["codex", "diff"])
        ),
        st.builds(Delete, PATHS),
        st.builds(Move, PATHS, PATHS),
        st.builds(Undo, PATHS),
    ),
    max_size=4,
)
VIEWS = st.builds(KnownText, st.integers(1, 4), SMALL, st.just(False)) | SMALL.map(KnownText.whole)


@some
@given(SCRAPS, SMALL)
def test_reading_and_applying_raise_their_own_errors_only(text: str, file: str) -> None:
    for read in (parse_codex_patch, parse_unified_diff):
        for wrapped in (text, f"*** Begin Patch\n{text}\n*** End Patch", f"--- f\n+++ f\n{text}"):
            with contextlib.suppress(PatchError, EditError):
                apply(read(wrapped), {"f": file})
    parse_numbered(text)


@some
@given(EDITS, EDITS, st.dictionaries(PATHS, VIEWS))
def test_comparing_raises_nothing_and_is_symmetric(
    one: list[Edit], other: list[Edit], files: dict[str, KnownText]
) -> None:
    with contextlib.suppress(EditError):
        apply(one, {path: text.text for path, text in files.items()})
    assert same_edit(one, other).same == same_edit(other, one).same
    assert same_effect(one, other, files).same == same_effect(other, one, files).same
    assert same_edit(one, one).same
    assert same_effect(one, one, files).same or same_effect(one, one, files).reason == "both_fail"
    assemble(files.values())


BIG = "".join(f"line {number}\n" for number in range(60_000)) + "a\n" * 300_000
SAME_LINE = "a\n" * 400_000
BLOCK = tuple(" a" for _ in range(150_000))


EVERY = range(0, 60_000, 60)

LARGE: dict[str, tuple[Edit, str]] = {
    "a long text that is not there": (Replace("f", "a\n" * 150_000 + "b", "c"), SAME_LINE),
    "a short text in a long one": (Replace("f", "line 59999\n", "c\n"), BIG),
    "a long hunk": (Hunks("f", (Hunk((*BLOCK, "-b")),)), SAME_LINE),
    "a long hunk of a diff": (Hunks("f", (Hunk((*BLOCK, "-b"), start=200_000),), None, "diff"), SAME_LINE),
    "a long hunk of a diff, other end": (Hunks("f", (Hunk(("-b", *BLOCK), start=200_000),), None, "diff"), SAME_LINE),
    "many hunks": (Hunks("f", tuple(Hunk((f"-line {number}", "+x")) for number in EVERY)), BIG),
    "many hunks of a diff": (
        Hunks("f", tuple(Hunk((f"-line {number}", "+x"), start=1) for number in EVERY), None, "diff"),
        BIG,
    ),
    "a line far down": (Insert("f", 350_000, "x"), SAME_LINE),
}


@pytest.mark.slow
@pytest.mark.parametrize("edit, text", LARGE.values(), ids=list(LARGE))
def test_time_is_linear_in_the_text(edit: Edit, text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(EditError):
        apply([edit], {"f": text})
    same_edit([edit], [edit, Insert("f", 1, "x")])
    assert time.process_time() - started < 6
