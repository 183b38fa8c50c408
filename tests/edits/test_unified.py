"""`parse_unified_diff` reads diffs of git and of plain diff; hunks go where the headers say, or near."""

import pytest

from paddock.edits import Delete, Edit, EditError, Hunk, Hunks, Move, PatchError, Write, apply, parse_unified_diff

BODY = "@@ -1 +1 @@\n-a\n+b\n"
CHANGE = Hunk(("-a", "+b"), start=1)
PLAIN = "--- a/f\n+++ b/f\n"
GIT = "diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"


def hunks(*found: Hunk, path: str = "f", move_to: str | None = None) -> Edit:
    return Hunks(path, found, move_to, "diff")


ACCEPTED: dict[str, tuple[str, list[Edit]]] = {
    "git's form": (GIT + BODY, [hunks(CHANGE)]),
    "the plain form": (PLAIN + BODY, [hunks(CHANGE)]),
    "plain paths without prefixes": ("--- src/f\n+++ src/f\n" + BODY, [hunks(CHANGE, path="src/f")]),
    "plain paths with times": ("--- f\t2020-01-01 00:00\n+++ f\t2020-01-02 00:00\n" + BODY, [hunks(CHANGE)]),
    "a plain copy under another name": ("--- f\n+++ f.new\n" + BODY, [hunks(CHANGE)]),
    "text around": ("Subject: x\n\n---\n f | 2 +-\n" + GIT + BODY + "-- \n2.40.1\n", [hunks(CHANGE)]),
    "context and counts": (
        PLAIN + "@@ -3,3 +3,4 @@ def f():\n x\n-a\n+b\n+c\n y\n",
        [hunks(Hunk((" x", "-a", "+b", "+c", " y"), start=3))],
    ),
    "an empty line as empty context": (
        PLAIN + "@@ -1,2 +1,2 @@\n\n-a\n+b\n",
        [hunks(Hunk((" ", "-a", "+b"), start=1))],
    ),
    "several hunks": (PLAIN + BODY + "@@ -9 +9 @@\n-c\n+d\n", [hunks(CHANGE, Hunk(("-c", "+d"), start=9))]),
    "lines that look like file headers": (
        PLAIN + "@@ -1,2 +1,2 @@\n--- x\n-- y\n+++ x\n++ y\n",
        [hunks(Hunk(("--- x", "-- y", "+++ x", "++ y"), start=1))],
    ),
    "several files": (GIT + BODY + GIT.replace("/f", "/g") + BODY, [hunks(CHANGE), hunks(CHANGE, path="g")]),
    "a new file": (
        "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n",
        [Write("n", "x\ny\n", create_only=True)],
    ),
    "a new empty file": (
        "diff --git a/n b/n\nnew file mode 100644\nindex 0..e\n",
        [Write("n", "", create_only=True)],
    ),
    "a deletion": (
        "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        [Delete("n")],
    ),
    "a plain deletion": ("--- n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", [Delete("n")]),
    "a rename": (
        "diff --git a/x y b/z\nsimilarity index 100%\nrename from x y\nrename to z\n",
        [Move("x y", "z")],
    ),
    "a rename with a change": (
        "diff --git a/f b/g\nrename from f\nrename to g\n--- a/f\n+++ b/g\n" + BODY,
        [hunks(CHANGE, move_to="g")],
    ),
    "a change of mode": ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", []),
    "a quoted name": (
        'diff --git "a/\\303\\251 \\"x" "b/\\303\\251 \\"x"\n--- "a/\\303\\251 \\"x"\n+++ "b/\\303\\251 \\"x"\n' + BODY,
        [hunks(CHANGE, path='é "x')],
    ),
    "no newline at the end, before": (
        PLAIN + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n",
        [hunks(Hunk(("-a", "+b"), start=1, at_end=True))],
    ),
    "no newline at the end, after": (
        PLAIN + BODY + "\\ No newline at end of file\n",
        [hunks(Hunk(("-a", "+b"), start=1, at_end=True, final_newline=False))],
    ),
    "no newline at the end, in context": (
        PLAIN + "@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ No newline at end of file\n",
        [hunks(Hunk(("-a", "+b", " c"), start=1, at_end=True, final_newline=False))],
    ),
    "a new file without a newline at the end": (
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
        [Write("n", "x", create_only=True)],
    ),
    "carriage returns of the transport": ((GIT + BODY).replace("\n", "\r\n"), [hunks(CHANGE)]),
    "carriage returns of the file": (PLAIN + "@@ -1 +1 @@\n-a\r\n+b\r\n", [hunks(Hunk(("-a\r", "+b\r"), start=1))]),
}


@pytest.mark.parametrize("text, edits", ACCEPTED.values(), ids=list(ACCEPTED))
def test_reads(text: str, edits: list[Edit]) -> None:
    assert parse_unified_diff(text) == edits


REFUSED: dict[str, tuple[str, str, int]] = {
    "nothing": ("", "there is no file in the diff", 0),
    "prose": ("please apply this\n", "there is no file in the diff", 0),
    "a hunk alone": (BODY, "a hunk without a file", 1),
    "a file without hunks": (PLAIN, "a file without hunks", 1),
    "no path": ("--- /dev/null\n+++ /dev/null\n" + BODY, "the diff does not name its file", 1),
    "two names and no rename": ("diff --git a/f b/other\n", "the diff does not name its file", 1),
    "too few lines": (PLAIN + "@@ -1,3 +1,3 @@\n-a\n+b\n", "a hunk has fewer lines than its header says", 5),
    "too many lines": (PLAIN + BODY + "+c\n", "a hunk has more lines than its header says", 6),
    "too many old lines": (PLAIN + "@@ -1 +1,2 @@\n-a\n-b\n+c\n+d\n", "a hunk has more lines than its header says", 5),
    "an unmarked line": (PLAIN + "@@ -1,2 +1,2 @@\n-a\n+b\nc\n", "not a line of a hunk: 'c'", 6),
    "another file within a hunk": (PLAIN + "@@ -1,2 +1,2 @@\n-a\n+b\n" + GIT, "not a line of a hunk: 'diff --git", 6),
    "a note before any line": (PLAIN + "@@ -1 +1 @@\n\\ No newline\n-a\n+b\n", "not a line of a hunk", 4),
    "a copy": ("diff --git a/f b/g\ncopy from f\ncopy to g\n", "copies and binary files", 2),
    "a binary file": ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "copies and binary files", 2),
    "a hunk header without numbers": (PLAIN + "@@\n-a\n+b\n", "a file without hunks", 1),
}


@pytest.mark.parametrize("text, message, line", REFUSED.values(), ids=list(REFUSED))
def test_refuses(text: str, message: str, line: int) -> None:
    with pytest.raises(PatchError) as caught:
        parse_unified_diff(text)
    assert caught.value.message.startswith(message)
    assert caught.value.line == line


PLACED: dict[str, tuple[str, str, str | None]] = {
    "where the header says": ("@@ -3 +3 @@\n-a\n+b", "a\na\na\na\n", "a\na\nb\na\n"),
    "at the nearest place below": ("@@ -2 +2 @@\n-a\n+b", "a\nx\nx\nx\na\n", "b\nx\nx\nx\na\n"),
    "at the nearest place above": ("@@ -4 +4 @@\n-a\n+b", "a\nx\nx\nx\na\n", "a\nx\nx\nx\nb\n"),
    "below at equal distance": ("@@ -3 +3 @@\n-a\n+b", "a\nx\nx\nx\na\n", "a\nx\nx\nx\nb\n"),
    "moved as the hunk before it": ("@@ -1 +1 @@\n-q\n+Q\n@@ -3 +3 @@\n-a\n+b", "x\nx\nq\na\na\n", "x\nx\nQ\na\nb\n"),
    "after the line that an insertion names": ("@@ -2,0 +3 @@\n+b", "x\ny\nz\n", "x\ny\nb\nz\n"),
    "before the first line": ("@@ -0,0 +1 @@\n+b", "x\n", "b\nx\n"),
    "at the end only, if it says so": ("@@ -1 +1 @@\n-a\n\\ No\n+b", "a\nx\na", "a\nx\nb\n"),
    "and takes the final newline away": ("@@ -1 +1 @@\n-a\n+b\n\\ No", "a\n", "b"),
    "and leaves a missing one further down": ("@@ -1 +1 @@\n-a\n+b", "a\nx", "b\nx"),
    "nowhere, when the line is not there": ("@@ -1 +1 @@\n-a\n+b", "x\n", None),
    "nowhere, when the line is longer than the file": ("@@ -9,0 +10 @@\n+b", "x\n", None),
    "nowhere, when only space differs": ("@@ -1 +1 @@\n-a\n+b", " a\n", None),
    "nowhere, when the line endings differ": ("@@ -1 +1 @@\n-a\n+b", "a\r\n", None),
    "nowhere above the hunk before it": ("@@ -2 +2 @@\n-q\n+Q\n@@ -3 +3 @@\n-a\n+b", "a\nq\nx\n", None),
}


@pytest.mark.parametrize("body, text, result", PLACED.values(), ids=list(PLACED))
def test_a_hunk_goes(body: str, text: str, result: str | None) -> None:
    edits = parse_unified_diff(f"{PLAIN}{body}\n")
    if result is not None:
        assert apply(edits, {"f": text}) == {"f": result}
        return
    with pytest.raises(EditError) as caught:
        apply(edits, {"f": text})
    assert caught.value.kind == "no_match"
