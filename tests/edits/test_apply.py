"""`apply` and `apply_known`: what each edit does to a file, and when it cannot be made."""

import pytest

from paddock.edits import (
    Delete,
    Edit,
    EditError,
    EditErrorKind,
    Insert,
    KnownText,
    Move,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    apply,
    apply_known,
    parse_codex_patch,
    parse_unified_diff,
)

FILES = {"f": "a\nb\nc\n", "g": "other\n"}
PART = KnownText(10, "a\nb\nc\n", complete=False)


def codex(body: str) -> Edit:
    return parse_codex_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")[0]


def diff(body: str) -> Edit:
    return parse_unified_diff(f"--- a/f\n+++ b/f\n{body}\n")[0]


MADE: dict[str, tuple[list[Edit], str | None]] = {
    "a write": ([Write("f", "x")], "x"),
    "a replacement": ([Replace("f", "b", "B")], "a\nB\nc\n"),
    "a replacement by nothing": ([Replace("f", "b\n", "")], "a\nc\n"),
    "a replacement of all": ([Replace("f", "\n", ";", replace_all=True)], "a;b;c;"),
    "an insert at the top": ([Insert("f", 0, "x")], "x\na\nb\nc\n"),
    "an insert below a line": ([Insert("f", 1, "x\ny")], "a\nx\ny\nb\nc\n"),
    "an insert at the end": ([Insert("f", 3, "x")], "a\nb\nc\nx\n"),
    "an insert with a final newline, which is an empty line": ([Insert("f", 1, "x\n")], "a\nx\n\nb\nc\n"),
    "an insert after a last line without a newline": ([Write("f", "a"), Insert("f", 1, "x")], "ax\n"),
    "replaced lines": ([ReplaceLines("f", 1, 2, "x")], "x\nc\n"),
    "replaced lines to the end": ([ReplaceLines("f", 2, None, "x\ny\n")], "a\nx\ny\n"),
    "removed lines": ([ReplaceLines("f", 2, 3, "")], "a\n"),
    "a deletion": ([Delete("f")], None),
    "an undo": ([Replace("f", "a", "A"), Replace("f", "b", "B"), Undo("f")], "A\nb\nc\n"),
    "an undo of all": ([Insert("f", 0, "x"), codex("@@\n-b"), Undo("f"), Undo("f")], "a\nb\nc\n"),
    "an undo of a write, which does nothing": ([Write("f", "x"), Undo("f")], "x"),
    "edits one after another": ([Replace("f", "a", "x"), Replace("f", "x", "y")], "y\nb\nc\n"),
    "a file deleted and written again": ([Delete("f"), Write("f", "x", create_only=True)], "x"),
}


@pytest.mark.parametrize("edits, result", MADE.values(), ids=list(MADE))
def test_makes(edits: list[Edit], result: str | None) -> None:
    expected = {"g": "other\n"} if result is None else {"f": result, "g": "other\n"}
    assert apply(edits, FILES) == expected
    assert FILES == {"f": "a\nb\nc\n", "g": "other\n"}


def test_a_move_takes_the_text_along() -> None:
    assert apply([Move("f", "h")], FILES) == {"g": "other\n", "h": FILES["f"]}


def test_a_move_overwrites() -> None:
    assert apply([Move("f", "g")], FILES) == {"g": FILES["f"]}


def test_hunks_move_after_they_are_made() -> None:
    assert apply([codex("*** Move to: h\n@@\n-b\n+B")], FILES) == {"g": "other\n", "h": "a\nB\nc\n"}


def test_a_file_that_a_patch_moves_onto_itself_is_lost() -> None:
    assert apply([codex("*** Move to: f\n@@\n-b\n+B")], FILES) == {"g": "other\n"}


FAILED: dict[str, tuple[list[Edit], EditErrorKind]] = {
    "text that is not there": ([Replace("f", "z", "x")], "no_match"),
    "text that is there twice": ([Replace("f", "\n", "")], "ambiguous"),
    "an empty old text": ([Replace("f", "", "x")], "ambiguous"),
    "equal texts": ([Replace("f", "a", "a")], "no_change"),
    "all of nothing": ([Replace("f", "z", "x", replace_all=True)], "no_match"),
    "a replacement in a missing file": ([Replace("h", "a", "b")], "missing_file"),
    "an insert into a missing file": ([Insert("h", 0, "b")], "missing_file"),
    "a patch of a missing file": ([Delete("f"), codex("@@\n-a")], "missing_file"),
    "a deletion of a missing file": ([Delete("h")], "missing_file"),
    "a move of a missing file": ([Move("h", "f")], "missing_file"),
    "an existing file to create": ([Write("f", "x", create_only=True)], "file_exists"),
    "an insert below the last line": ([Insert("f", 4, "x")], "line_range"),
    "an insert at a negative line": ([Insert("f", -1, "x")], "line_range"),
    "lines from 0": ([ReplaceLines("f", 0, 1, "x")], "line_range"),
    "lines beyond the last": ([ReplaceLines("f", 2, 4, "x")], "line_range"),
    "lines that end before they start": ([ReplaceLines("f", 3, 2, "x")], "line_range"),
    "nothing to undo": ([Undo("f")], "no_history"),
    "more to undo than was done": ([Replace("f", "a", "b"), Undo("f"), Undo("f")], "no_history"),
}


@pytest.mark.parametrize("edits, kind", FAILED.values(), ids=list(FAILED))
def test_cannot_make(edits: list[Edit], kind: EditErrorKind) -> None:
    with pytest.raises(EditError) as caught:
        apply(edits, FILES)
    assert caught.value.kind == kind
    assert caught.value.path in caught.value.message


MADE_ON_A_PART: dict[str, tuple[Edit, str]] = {
    "a replacement": (Replace("f", "b", "B"), "a\nB\nc\n"),
    "an insert before the first known line": (Insert("f", 9, "x"), "x\na\nb\nc\n"),
    "an insert by the file's line numbers": (Insert("f", 11, "x"), "a\nb\nx\nc\n"),
    "an insert below the last known line": (Insert("f", 12, "x"), "a\nb\nc\nx\n"),
    "replaced lines": (ReplaceLines("f", 11, 12, "x"), "a\nx\n"),
    "a hunk": (codex("@@\n-b\n+B"), "a\nB\nc\n"),
    "a hunk with an anchor that was not seen": (codex("@@ def f():\n-b\n+B"), "a\nB\nc\n"),
    "a hunk of a diff": (diff("@@ -11 +11 @@\n-b\n+B"), "a\nB\nc\n"),
    "a hunk of a diff with another line number": (diff("@@ -90 +90 @@\n-b\n+B"), "a\nB\nc\n"),
    "a line that a diff inserts": (diff("@@ -10,0 +11 @@\n+x"), "a\nx\nb\nc\n"),
}


@pytest.mark.parametrize("edit, result", MADE_ON_A_PART.values(), ids=list(MADE_ON_A_PART))
def test_makes_on_a_part(edit: Edit, result: str) -> None:
    assert apply_known([edit], {"f": PART}) == {"f": KnownText(10, result, complete=False)}


UNSEEN: dict[str, Edit] = {
    "text that was not seen": Replace("f", "z", "x"),
    "all of them": Replace("f", "a", "x", replace_all=True),
    "an insert above": Insert("f", 8, "x"),
    "an insert below": Insert("f", 13, "x"),
    "lines that begin above": ReplaceLines("f", 9, 10, "x"),
    "lines to the end": ReplaceLines("f", 11, None, "x"),
    "a hunk that was not seen": codex("@@\n-z\n+x"),
    "a hunk at the end": codex("@@\n-c\n*** End of File"),
    "an addition to the end": codex("@@\n+x"),
    "a diff's insertion above": diff("@@ -3,0 +4 @@\n+x"),
    "a file that was not seen": Replace("h", "a", "b"),
    "a move of a file that was not seen": Move("h", "f"),
}


@pytest.mark.parametrize("edit", UNSEEN.values(), ids=list(UNSEEN))
def test_what_was_seen_does_not_decide(edit: Edit) -> None:
    with pytest.raises(EditError) as caught:
        apply_known([edit], {"f": PART})
    assert caught.value.kind == "unseen"


def test_a_hunk_that_was_seen_twice_is_not_placed() -> None:
    with pytest.raises(EditError, match="the known text"):
        apply_known([codex("@@\n-a\n+b")], {"f": KnownText(5, "a\na\n", complete=False)})


def test_a_hunk_that_was_seen_twice_goes_below_an_anchor_that_was_seen_once() -> None:
    known = KnownText(5, "a\ndef g():\na\n", complete=False)
    assert apply_known([codex("@@ def g():\n-a\n+b")], {"f": known})["f"].text == "a\ndef g():\nb\n"


def test_text_that_was_seen_twice_is_ambiguous_for_certain() -> None:
    with pytest.raises(EditError) as caught:
        apply_known([Replace("f", "a", "b")], {"f": KnownText(5, "a\na\n", complete=False)})
    assert caught.value.kind == "ambiguous"


def test_a_write_makes_all_of_a_file_known() -> None:
    assert apply_known([Write("f", "x\n"), Insert("f", 1, "y")], {"f": PART}) == {"f": KnownText.whole("x\ny\n")}


def test_a_deleted_file_is_missing_and_not_unseen() -> None:
    with pytest.raises(EditError) as caught:
        apply_known([Delete("f"), Replace("f", "a", "b")], {"f": PART})
    assert caught.value.kind == "missing_file"
