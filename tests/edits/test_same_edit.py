"""`same_edit`: which edits are the same when no text of the file is known. Each pair is judged in both orders."""

import pytest

from paddock.edits import (
    Delete,
    Edit,
    Insert,
    Move,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    parse_codex_patch,
    parse_unified_diff,
    same_edit,
)

Pair = tuple[list[Edit], list[Edit], str]


def r(old: str, new: str, path: str = "f", *, all_of_them: bool = False) -> Edit:
    return Replace(path, old, new, all_of_them)


def codex(body: str, path: str = "f") -> list[Edit]:
    return parse_codex_patch(f"*** Begin Patch\n*** Update File: {path}\n{body}\n*** End Patch")


def diff(body: str) -> list[Edit]:
    return parse_unified_diff(f"--- a/f\n+++ b/f\n{body}\n")


def w(text: str, path: str = "f") -> list[Edit]:
    return [Write(path, text)]


def i(line: int, text: str) -> list[Edit]:
    return [Insert("f", line, text)]


LOOP = "for x in y:\n    go(x)\n"
GUARD = "for x in y:\n    if x:\n        go(x)\n"

SAME: dict[str, Pair] = {
    # replace
    "replace: equal": ([r("a", "b")], [r("a", "b")], "equal_edits"),
    "replace: context above": ([r("b\n", "c\n")], [r("a\nb\n", "a\nc\n")], "contained"),
    "replace: context below": ([r("b\n", "c\n")], [r("b\nx\n", "c\nx\n")], "contained"),
    "replace: context around": ([r("b", "c")], [r("a\nb\nx", "a\nc\nx")], "contained"),
    "replace: context within the line": ([r("None", "total")], [r("return None", "return total")], "contained"),
    "replace: a final newline on both texts": ([r("a", "b")], [r("a\n", "b\n")], "contained"),
    "replace: context above here, below there": (
        [r("x = 1\nreturn None", "x = 1\nreturn x")],
        [r("def f():\nx = 1\nreturn None\n", "def f():\nx = 1\nreturn x\n")],
        "contained",
    ),
    "replace: contexts that overlap": (
        [r("head\nx = 1\na\n", "head\nx = 1\nb\n")],
        [r("x = 1\na\ntail\n", "x = 1\nb\ntail\n")],
        "shared_context",
    ),
    "replace: lines added between the same lines": (
        [r("a\nb", "a\nnew\nb")],
        [r("a\nb\nc", "a\nnew\nb\nc")],
        "contained",
    ),
    "replace: lines added, contexts that overlap": (
        [r("x\na\n", "x\na\nnew\n")],
        [r("a\nz\n", "a\nnew\nz\n")],
        "shared_context",
    ),
    "replace: a line removed": ([r("a\nb\n", "a\n")], [r("b\n", "")], "contained"),
    "replace: a block re-indented": ([r(LOOP, GUARD)], [r("y = 1\n" + LOOP, "y = 1\n" + GUARD)], "contained"),
    "replace: two in another order": ([r("a1", "b1"), r("c2", "d2")], [r("c2", "d2"), r("a1", "b1")], "equal_edits"),
    "replace: two as one": ([r("a1", "b1"), r("c2", "d2")], [r("a1\nx\nc2", "b1\nx\nd2")], "contained"),
    "replace: one built on another, as one": ([r("a", "b1"), r("b1\nc", "b1\nd")], [r("a\nc", "b1\nd")], "contained"),
    "replace: two files in another order": (
        [r("a", "b"), r("c", "d", "g")],
        [r("c", "d", "g"), r("a", "b")],
        "equal_edits",
    ),
    "replace: all of them": ([r("a", "b", all_of_them=True)], [r("a", "b", all_of_them=True)], "equal_edits"),
    # write
    "write: equal": (w("a\n"), w("a\n"), "equal_edits"),
    "write: a final newline more": (w("a"), w("a\n"), "equal_text"),
    "write: nothing and a newline": (w(""), w("\n"), "equal_text"),
    "write: whether it may exist": ([Write("f", "a", create_only=True)], w("a"), "equal_text"),
    "write: then replaced": ([*w("a b"), r("b", "c")], w("a c"), "equal_text"),
    "write: twice": ([*w("a"), *w("b")], w("b"), "equal_text"),
    "write: then inserted into": ([*w("a\n"), *i(1, "b")], w("a\nb\n"), "equal_text"),
    "write: then patched": ([*w("a\n"), *codex("@@\n-a\n+b")], w("b\n"), "equal_text"),
    "write: then deleted": ([*w("a"), Delete("f")], [*w("b"), Delete("f")], "equal_text"),
    "write: as a patch": (
        parse_codex_patch("*** Begin Patch\n*** Add File: f\n+a\n*** End Patch"),
        w("a"),
        "equal_text",
    ),
    "write: as a diff": (parse_unified_diff("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"), w("a"), "equal_text"),
    "write: two files": ([*w("a"), *w("b", "g")], [*w("b", "g"), *w("a")], "equal_edits"),
    # insert
    "insert: equal": (i(3, "a"), i(3, "a"), "equal_edits"),
    "insert: at the top": (i(0, "a\nb"), i(0, "a\nb"), "equal_edits"),
    "insert: an empty line": (i(3, ""), i(3, ""), "equal_edits"),
    "insert: with an empty line after": (i(3, "a\n"), i(3, "a\n"), "equal_edits"),
    "insert: two": (i(3, "a") + i(9, "b"), i(3, "a") + i(9, "b"), "equal_edits"),
    "insert: as a diff without context": (i(3, "a"), diff("@@ -3,0 +4 @@\n+a"), "equal_edits"),
    "insert: as a diff at the top": (i(0, "a"), diff("@@ -0,0 +1 @@\n+a"), "equal_edits"),
    "insert: lines as a diff": (i(3, "a\nb"), diff("@@ -3,0 +4,2 @@\n+a\n+b"), "equal_edits"),
    "insert: two as a diff": (i(3, "a") + i(6, "b"), diff("@@ -3,0 +4 @@\n+a\n@@ -5,0 +7 @@\n+b"), "equal_edits"),
    "insert: after a replacement": ([r("a", "b"), *i(3, "c")], [r("x\na", "x\nb"), *i(3, "c")], "contained"),
    "insert: and an undo": ([*i(3, "c"), Undo("f")], [*i(3, "c"), Undo("f")], "equal_edits"),
    # codex
    "codex: equal": (codex("@@\n-a\n+b"), codex("@@\n-a\n+b"), "equal_edits"),
    "codex: with and without @@": (codex("-a\n+b"), codex("@@\n-a\n+b"), "equal_edits"),
    "codex: more context": (codex("@@\n x\n-a\n+b"), codex("@@\n w\n x\n-a\n+b\n y"), "contained"),
    "codex: contexts that overlap": (codex("@@\n w\n x\n-a\n+b"), codex("@@\n x\n-a\n+b\n y"), "shared_context"),
    "codex: an anchor more": (codex("@@ def f():\n x\n-a\n+b"), codex("@@\n x\n-a\n+b"), "contained"),
    "codex: the anchor as context": (codex("@@ def f():\n-a\n+b"), codex("@@\n def f():\n-a\n+b"), "contained"),
    "codex: anchors that differ in space": (codex("@@ f():\n-a\n+b"), codex("@@  f():\n x\n-a\n+b"), "contained"),
    "codex: against a replacement": (codex("@@\n x\n-a\n+b"), [r("a", "b")], "contained"),
    "codex: against a longer replacement": (codex("@@\n-a\n+b"), [r("w\na\nz", "w\nb\nz")], "contained"),
    "codex: a removed line against a replacement": (codex("@@\n x\n-a"), [r("a\n", "")], "contained"),
    "codex: two hunks as one": (codex("@@\n-a\n+A\n@@\n-b\n+B"), codex("@@\n-a\n+A\n x\n-b\n+B"), "contained"),
    "codex: two hunks as replacements": (codex("@@\n-a\n+A\n@@\n-b\n+B"), [r("a", "A"), r("b", "B")], "contained"),
    "codex: two hunks in two updates": (
        codex("@@\n-a\n+A\n@@\n-b\n+B"),
        codex("@@\n-a\n+A") + codex("@@\n-b\n+B"),
        "equal_edits",
    ),
    "codex: one hunk as two with other context": (
        codex("@@\n x\n-a\n+A\n m\n n\n-b\n+B\n y"),
        codex("@@\n w\n x\n-a\n+A\n m\n@@\n n\n-b\n+B\n y\n z"),
        "shared_context",
    ),
    "codex: a line kept, or removed and added": (codex("@@\n x\n-a\n+b"), codex("@@\n-x\n-a\n+x\n+b"), "equal_edits"),
    "codex: an addition to the end": (codex("@@\n+z"), codex("@@ q\n+z"), "equal_edits"),
    "codex: a move": (codex("*** Move to: g\n@@\n-a\n+b"), [*codex("@@\n-a\n+b"), Move("f", "g")], "equal_edits"),
    # diff
    "diff: equal": (diff("@@ -1 +1 @@\n-a\n+b"), diff("@@ -1 +1 @@\n-a\n+b"), "equal_edits"),
    "diff: another line number": (diff("@@ -1 +1 @@\n-a\n+b"), diff("@@ -7 +7 @@\n-a\n+b"), "equal_edits"),
    "diff: more context": (diff("@@ -2 +2 @@\n-a\n+b"), diff("@@ -1,3 +1,3 @@\n x\n-a\n+b\n y"), "contained"),
    "diff: contexts that overlap": (
        diff("@@ -1,3 +1,3 @@\n w\n x\n-a\n+b"),
        diff("@@ -2,3 +2,3 @@\n x\n-a\n+b\n y"),
        "shared_context",
    ),
    "diff: against a replacement": (diff("@@ -1,3 +1,3 @@\n x\n-a\n+b\n y"), [r("a", "b")], "contained"),
    "diff: against a longer replacement": (diff("@@ -2 +2 @@\n-a\n+b"), [r("x\na\ny", "x\nb\ny")], "contained"),
    "diff: against a patch": (diff("@@ -1,3 +1,3 @@\n x\n-a\n+b\n y"), codex("@@\n x\n-a\n+b"), "contained"),
    "diff: two hunks against a patch": (
        diff("@@ -2 +2 @@\n-a\n+A\n@@ -9 +9 @@\n-b\n+B"),
        codex("@@\n-a\n+A\n@@\n-b\n+B"),
        "equal_edits",
    ),
    "diff: two hunks against replacements": (
        diff("@@ -2 +2 @@\n-a\n+A\n@@ -9 +9 @@\n-b\n+B"),
        [r("b", "B"), r("a", "A")],
        "contained",
    ),
    "diff: one hunk against two": (
        diff("@@ -2,3 +2,3 @@\n-a\n+A\n x\n-b\n+B"),
        diff("@@ -2 +2 @@\n-a\n+A\n@@ -4 +4 @@\n-b\n+B"),
        "contained",
    ),
    "diff: a deletion": (parse_unified_diff("--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"), [Delete("f")], "equal_edits"),
    "diff: a final newline less": (
        diff("@@ -1 +1 @@\n-a\n+b"),
        diff("@@ -1 +1 @@\n-a\n+b\n\\ No newline"),
        "equal_edits",
    ),
    # others
    "delete": ([Delete("f")], [Delete("f")], "equal_edits"),
    "move": ([Move("f", "g")], [Move("f", "g")], "equal_edits"),
    "move: edited after": ([Move("f", "g"), r("a", "b", "g")], [Move("f", "g"), r("a", "b", "g")], "equal_edits"),
    "lines: a final newline more": ([ReplaceLines("f", 1, 2, "a")], [ReplaceLines("f", 1, 2, "a\n")], "equal_edits"),
    "nothing": ([], [], "equal_edits"),
}

DIFFERENT: dict[str, Pair] = {
    # replace
    "replace: another new text": ([r("a", "b")], [r("a", "c")], "text"),
    "replace: another old text": ([r("a", "b")], [r("x", "b")], "text"),
    "replace: another path": ([r("a", "b")], [r("a", "b", "g")], "files"),
    "replace: a dropped `not`": ([r("if not x:", "if not y:")], [r("if not x:", "if y:")], "text"),
    "replace: indentation of the new line": ([r("a\n    b", "a\n    c")], [r("a\n    b", "a\n  c")], "text"),
    "replace: indentation of a block": ([r(LOOP, GUARD)], [r(LOOP, GUARD.replace("        go", "      go"))], "text"),
    "replace: tabs for spaces": ([r("a", "    b")], [r("a", "\tb")], "text"),
    "replace: space inside a line": ([r("a", "f(x, y)")], [r("a", "f(x,y)")], "text"),
    "replace: space at a line's end": ([r("a", "b")], [r("a", "b ")], "text"),
    "replace: CRLF for LF": ([r("a", "b\nc")], [r("a", "b\r\nc")], "text"),
    "replace: CRLF for LF around": ([r("a\nb", "a\nc")], [r("a\r\nb", "a\r\nc")], "context"),
    "replace: an empty line more": ([r("a", "b\n")], [r("a", "b\n\n")], "text"),
    "replace: one line more": ([r("a", "b")], [r("a", "b\nc")], "text"),
    "replace: context that also changes": ([r("b", "c")], [r("a\nb", "A\nc")], "text"),
    "replace: contexts that disagree": ([r("x\na\n", "x\nb\n")], [r("y\na\n", "y\nb\n")], "context"),
    "replace: contexts that do not meet": (
        [r("def f():\n    pass", "def f():\n    return 1")],
        [r("    pass\n\ndef h()", "    return 1\n\ndef h()")],
        "context",
    ),
    "replace: lines added after here, before there": ([r("a\n", "a\nnew\n")], [r("b\n", "new\nb\n")], "context"),
    "replace: an old text that stands twice in the other's": ([r("a", "b")], [r("a\na", "b\na")], "context"),
    "replace: all or one": ([r("a", "b")], [r("a", "b", all_of_them=True)], "text"),
    "replace: all or one, with context": ([r("x\na", "x\nb")], [r("x\na", "x\nb", all_of_them=True)], "text"),
    "replace: nothing changed here, nor there": ([r("a", "a")], [r("b", "b")], "text"),
    "replace: a context line that goes on": ([r("a\ny\n", "b\ny\n")], codex("@@\n-a\n+b\n y2"), "context"),
    "replace: all of more": ([r("a", "b", all_of_them=True)], [r("x a", "x b", all_of_them=True)], "text"),
    "replace: one of two": ([r("a", "b"), r("c", "d")], [r("a", "b")], "text"),
    "replace: an order that matters": ([r("a", "b"), r("b", "c")], [r("b", "c"), r("a", "b")], "text"),
    "replace: swapped new texts": ([r("a", "b"), r("c", "d")], [r("a", "d"), r("c", "b")], "text"),
    "replace: the other way round": ([r("a", "b")], [r("b", "a")], "text"),
    "replace: against a write": ([r("a", "b")], w("b"), "kind"),
    # write
    "write: other text": (w("a"), w("b"), "text"),
    "write: another path": (w("a"), w("a", "g"), "files"),
    "write: indentation": (w("if x:\n    a"), w("if x:\n  a"), "text"),
    "write: a dropped `not`": (w("return not x"), w("return x"), "text"),
    "write: two final newlines more": (w("a"), w("a\n\n"), "text"),
    "write: space at a line's end": (w("a\nb"), w("a \nb"), "text"),
    "write: CRLF for LF": (w("a\nb\n"), w("a\r\nb\r\n"), "text"),
    "write: an empty line before": (w("a"), w("\na"), "text"),
    "write: case": (w("A"), w("a"), "text"),
    "write: lines in another order": (w("a\nb"), w("b\na"), "text"),
    "write: then replaced otherwise": ([*w("a b"), r("b", "c")], w("a b"), "text"),
    "write: then replaced in vain": ([*w("a"), r("z", "c")], w("a"), "text"),
    "write: then deleted": ([*w("a"), Delete("f")], w("a"), "text"),
    "write: one file of two": ([*w("a"), *w("b", "g")], w("a"), "files"),
    # insert
    "insert: another line": (i(3, "a"), i(4, "a"), "text"),
    "insert: other text": (i(3, "a"), i(3, "b"), "text"),
    "insert: a newline more, which is an empty line": (i(3, "a"), i(3, "a\n"), "text"),
    "insert: indentation": (i(3, "    a"), i(3, "  a"), "text"),
    "insert: another path": (i(3, "a"), [Insert("g", 3, "a")], "files"),
    "insert: a line more": (i(3, "a"), i(3, "a\nb"), "text"),
    "insert: twice": (i(3, "a"), i(3, "a") + i(3, "a"), "kind"),
    "insert: in another order": (i(3, "a") + i(9, "b"), i(9, "b") + i(3, "a"), "text"),
    "insert: against a replacement": (i(3, "a"), [r("x", "x\na")], "kind"),
    "insert: against a write": (i(0, "a"), w("a"), "kind"),
    "insert: as a diff at another line": (i(3, "a"), diff("@@ -2,0 +3 @@\n+a"), "text"),
    "insert: and undone": (i(3, "a"), [*i(3, "a"), Undo("f")], "kind"),
    # codex
    "codex: another new line": (codex("@@\n-a\n+b"), codex("@@\n-a\n+c"), "text"),
    "codex: indentation": (codex("@@\n-a\n+    b"), codex("@@\n-a\n+  b"), "text"),
    "codex: a dropped `not`": (codex("@@\n-a\n+if not b:"), codex("@@\n-a\n+if b:"), "text"),
    "codex: another path": (codex("@@\n-a\n+b"), codex("@@\n-a\n+b", "g"), "files"),
    "codex: other anchors": (codex("@@ class A:\n x\n-a\n+b"), codex("@@ class B:\n x\n-a\n+b"), "context"),
    "codex: contexts that disagree": (codex("@@\n x\n-a\n+b"), codex("@@\n y\n-a\n+b"), "context"),
    "codex: contexts that do not meet": (codex("@@\n x\n-a\n+b"), codex("@@\n-a\n+b\n y"), "context"),
    "codex: a line removed or kept": (codex("@@\n x\n-a\n+b"), codex("@@\n-x\n-a\n+b"), "text"),
    "codex: one hunk of two": (codex("@@\n-a\n+A\n@@\n-b\n+B"), codex("@@\n-a\n+A"), "text"),
    "codex: added above or below": (codex("@@\n x\n+n\n y"), codex("@@\n x\n y\n+n"), "context"),
    "codex: to the end or below a line": (codex("@@\n+n"), codex("@@\n x\n+n"), "text"),
    "codex: other additions to the end": (codex("@@\n+n"), codex("@@\n+m"), "text"),
    "codex: moved or not": (codex("*** Move to: g\n@@\n-a\n+b"), codex("@@\n-a\n+b"), "files"),
    "codex: moved elsewhere": (codex("*** Move to: g\n@@\n-a"), codex("*** Move to: h\n@@\n-a"), "files"),
    "codex: part of a line against a whole one": (codex("@@\n-a\n+b"), [r("xa", "xb")], "text"),
    "codex: a line against its text alone": (codex("@@\n-a"), [r("a", "")], "text"),
    "codex: nothing but punctuation": (codex("@@\n-}\n+};"), [r("b\n}\n", "b\n};\n")], "context"),
    # diff
    "diff: another new line": (diff("@@ -1 +1 @@\n-a\n+b"), diff("@@ -1 +1 @@\n-a\n+c"), "text"),
    "diff: indentation": (diff("@@ -1 +1 @@\n-a\n+    b"), diff("@@ -1 +1 @@\n-a\n+  b"), "text"),
    "diff: CRLF for LF": (diff("@@ -1 +1 @@\n-a\n+b"), diff("@@ -1 +1 @@\n-a\r\n+b\r"), "text"),
    "diff: contexts that disagree": (
        diff("@@ -1,2 +1,2 @@\n x\n-a\n+b"),
        diff("@@ -1,2 +1,2 @@\n y\n-a\n+b"),
        "context",
    ),
    "diff: an insertion elsewhere": (diff("@@ -3,0 +4 @@\n+a"), diff("@@ -5,0 +6 @@\n+a"), "text"),
    "diff: one hunk of two": (diff("@@ -1 +1 @@\n-a\n+b\n@@ -5 +5 @@\n-c\n+d"), diff("@@ -1 +1 @@\n-a\n+b"), "text"),
    "diff: the other way round": (diff("@@ -1 +1 @@\n-a\n+b"), diff("@@ -1 +1 @@\n-b\n+a"), "text"),
    "diff: space inside a line": (diff("@@ -1 +1 @@\n-a\n+f(x, y)"), [r("a", "f(x,y)")], "text"),
    "diff: a removed line more": (diff("@@ -1,2 +1 @@\n-a\n-x\n+b"), codex("@@\n-a\n+b\n x"), "text"),
    "diff: against an addition to the end": (diff("@@ -9,0 +10 @@\n+a"), codex("@@\n+a"), "kind"),
    "diff: a deletion against a change": (
        parse_unified_diff("--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
        diff("@@ -1 +0,0 @@\n-x"),
        "kind",
    ),
    # others
    "delete: another file": ([Delete("f")], [Delete("g")], "files"),
    "delete: against a move": ([Delete("f")], [Move("f", "g")], "files"),
    "move: edited before or after": (
        [Move("f", "g"), r("a", "b", "g")],
        [r("a", "b", "g"), Move("f", "g")],
        "files",
    ),
    "lines: others": ([ReplaceLines("f", 1, 2, "a")], [ReplaceLines("f", 1, 3, "a")], "text"),
    "lines: removed or empty": ([ReplaceLines("f", 1, 2, "")], [ReplaceLines("f", 1, 2, "\n")], "text"),
    "something against nothing": ([r("a", "b")], [], "files"),
}


@pytest.mark.parametrize("expected, actual, reason", SAME.values(), ids=list(SAME))
def test_same(expected: list[Edit], actual: list[Edit], reason: str) -> None:
    assert (True, reason) == same_edit(expected, actual)[:2] == same_edit(actual, expected)[:2]


@pytest.mark.parametrize("expected, actual, reason", DIFFERENT.values(), ids=list(DIFFERENT))
def test_different(expected: list[Edit], actual: list[Edit], reason: str) -> None:
    assert (False, reason) == same_edit(expected, actual)[:2] == same_edit(actual, expected)[:2]
