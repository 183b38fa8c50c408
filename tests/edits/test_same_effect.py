"""`same_effect`: which edits leave the same files behind. Each pair is judged in both orders."""

import pytest

from paddock.edits import (
    Delete,
    Edit,
    Insert,
    KnownText,
    Move,
    Replace,
    ReplaceLines,
    Undo,
    Write,
    parse_codex_patch,
    parse_unified_diff,
    same_effect,
)

SOURCE = "import os\n\n\ndef f(x):\n    if not x:\n        return None\n    return x\n\n\ndef g():\n    return None\n"
FILES: dict[str, KnownText | str] = {
    "f": SOURCE,
    "part": KnownText(40, SOURCE, complete=False),
    "crlf": SOURCE.replace("\n", "\r\n"),
}
GUARD = ("    if not x:\n        return None", "    if not x:\n        return 0")


def r(old: str, new: str, path: str = "f", *, all_of_them: bool = False) -> Edit:
    return Replace(path, old, new, all_of_them)


def codex(body: str, path: str = "f") -> list[Edit]:
    return parse_codex_patch(f"*** Begin Patch\n*** Update File: {path}\n{body}\n*** End Patch")


def diff(body: str, path: str = "f") -> list[Edit]:
    return parse_unified_diff(f"--- {path}\n+++ {path}\n{body}\n")


Pair = tuple[list[Edit], list[Edit], str]

SAME: dict[str, Pair] = {
    "more context": ([r(*GUARD)], [r("def f(x):\n" + GUARD[0], "def f(x):\n" + GUARD[1])], "equal_text"),
    "contexts that do not meet": ([r("import os\n", "import re\n")], [r("os\n\n\n", "re\n\n\n")], "equal_text"),
    "part of a line": ([r("if not x", "if x is None")], [r("not x", "x is None")], "equal_text"),
    "a replacement and a write": ([r("os", "re")], [Write("f", SOURCE.replace("os", "re"))], "equal_text"),
    "a write without a final newline": ([Write("f", "a\n")], [Write("f", "a")], "equal_text"),
    "a replacement and an insert": (
        [r("import os\n", "import os\nimport re\n")],
        [Insert("f", 1, "import re")],
        "equal_text",
    ),
    "a replacement and replaced lines": (
        [r("import os", "import re")],
        [ReplaceLines("f", 1, 1, "import re")],
        "equal_text",
    ),
    "a replacement and a patch": (
        [r(*GUARD)],
        codex("@@ def f(x):\n-        return None\n+        return 0"),
        "equal_text",
    ),
    "a patch that leaves out indentation": (
        codex("@@\n def f(x):\n if not x:\n-return None\n+        return 0"),
        [r(*GUARD)],
        "equal_text",
    ),
    "a replacement and a diff": (
        [r(*GUARD)],
        diff("@@ -5,2 +5,2 @@\n     if not x:\n-        return None\n+        return 0"),
        "equal_text",
    ),
    "a patch and a diff": (
        codex("@@ def g():\n-    return None\n+    return 1"),
        diff("@@ -11 +11 @@\n-    return None\n+    return 1"),
        "equal_text",
    ),
    "one edit and two": ([r("f(x)", "f(y)")], [r("f(x)", "f(z)"), r("f(z)", "f(y)")], "equal_text"),
    "an edit taken back": ([r("os", "re")], [r("def g", "def h"), Undo("f"), r("os", "re")], "equal_text"),
    "all and each": (
        [r("None", "0", all_of_them=True)],
        codex("@@\n-        return None\n+        return 0\n@@\n-    return None\n+    return 0"),
        "equal_text",
    ),
    "a move": ([Move("f", "h")], [Write("h", SOURCE), Delete("f")], "equal_text"),
    "a move onto what is not known": (
        [Move("f", "h"), r("os", "re", "h")],
        codex("*** Move to: h\n@@\n-import os\n+import re"),
        "equal_text",
    ),
    "a deletion": ([Delete("f")], [Write("f", ""), Delete("f")], "equal_text"),
    "known files in another order": (
        [r("os", "re"), r("os", "re", "part")],
        [r("os", "re", "part"), r("os", "re")],
        "equal_text",
    ),
    "a part: more context": ([r("os", "re", "part")], [r("import os\n", "import re\n", "part")], "equal_text"),
    "a part: by line numbers": (
        [r("import os", "import re", "part")],
        [ReplaceLines("part", 40, 40, "import re")],
        "equal_text",
    ),
    "a part: a patch": (
        [r(*GUARD, "part")],
        codex("@@ class A:\n     if not x:\n-        return None\n+        return 0", "part"),
        "equal_text",
    ),
    "a part: what was not seen": ([r("zzz", "y", "part")], [r("x zzz", "x y", "part")], "contained"),
    "a part: all of them": (
        [r("None", "0", "part", all_of_them=True)],
        [r("None", "0", "part", all_of_them=True)],
        "equal_edits",
    ),
    "a file that is not known": ([r("a", "b", "h")], [r("x a", "x b", "h")], "contained"),
    "a new file": ([Write("h", "a\n", create_only=True)], [Write("h", "a")], "equal_text"),
    "a deletion of what is not known": ([Delete("h")], [Delete("h")], "equal_edits"),
    "one known and one not": (
        [r("os", "re"), r("a", "b", "h")],
        [r("import os", "import re"), r("x a", "x b", "h")],
        "contained",
    ),
}

DIFFERENT: dict[str, Pair] = {
    "another new text": ([r("import os", "import re")], [r("import os", "import sys")], "text"),
    "indentation": ([r(*GUARD)], [r(GUARD[0], GUARD[1].replace("        return", "    return"))], "text"),
    "a dropped `not`": ([r("if not x:", "if not x():")], [r("if not x:", "if x():")], "text"),
    "space inside a line": ([r("f(x)", "f(x, y)")], [r("f(x)", "f(x,y)")], "text"),
    "space at a line's end": ([r("import os\n", "import re\n")], [r("import os\n", "import re \n")], "text"),
    "an empty line more": ([r("import os\n", "import re\n")], [r("import os\n", "import re\n\n")], "text"),
    "line endings": ([Write("f", "a\nb\n")], [Write("f", "a\r\nb\r\n")], "text"),
    "another place with the same text": (
        codex("@@ def f(x):\n-return None\n+        return 0"),
        codex("@@ def g():\n-return None\n+        return 0"),
        "text",
    ),
    "an insert one line further down": ([Insert("f", 1, "x")], [Insert("f", 4, "x")], "text"),
    "one of two edits": ([r("os", "re"), r("def g", "def h")], [r("os", "re")], "text"),
    "one of two files": ([r("os", "re"), r("os", "re", "part")], [r("os", "re")], "text"),
    "a known file more": ([r("os", "re")], [r("os", "re"), Write("h", "a")], "files"),
    "a deletion and an empty file": ([Delete("f")], [Write("f", "")], "files"),
    "a move elsewhere": ([Move("f", "h")], [Move("f", "i")], "files"),
    "an edit and its undoing": ([r("os", "re")], [r("os", "re"), Undo("f")], "text"),
    "line endings of the file": (
        [r("import os\r\n", "import re\r\n", "crlf")],
        [r("import os\r\n", "import re\n", "crlf")],
        "text",
    ),
    "a part: a write": ([r("os", "re", "part")], [Write("part", SOURCE.replace("os", "re"))], "text"),
    "a part: by line numbers": ([Insert("part", 40, "x")], [Insert("part", 43, "x")], "text"),
    "a part: all of them": ([r("os", "re", "part", all_of_them=True)], [r("os", "re", "part")], "text"),
    "a file that is not known": ([r("a", "b", "h")], [r("a", "c", "h")], "text"),
    "a write to what is not known": ([r("a", "b", "h")], [Write("h", "b")], "kind"),
    "both fail": ([r("zzz", "y")], [r("zzz", "y")], "both_fail"),
    "both are ambiguous": ([r("None", "0")], [r("return None", "return 0")], "both_fail"),
    "a file that exists already": (
        [Write("f", "a", create_only=True)],
        [Write("f", "a", create_only=True)],
        "both_fail",
    ),
}

FAILS: dict[str, tuple[list[Edit], list[Edit]]] = {
    "on text that is not there": ([r("os", "re")], [r("import  os", "import  re")]),
    "on text that is there twice": ([r(*GUARD)], [r("return None", "return 0")]),
    "on a part, on text that was seen twice": ([r(*GUARD, "part")], [r("return None", "return 0", "part")]),
    "on LF text in a CRLF file": (
        [r("import os\r\n\r\n", "import re\r\n\r\n", "crlf")],
        [r("os\n\n", "re\n\n", "crlf")],
    ),
    "twice on a part, where the other was not seen": (
        [r("x None zzz", "x 0 zzz", "part")],
        [r("None", "0", "part")],
    ),
    "below the last line": ([Insert("f", 11, "x")], [Insert("f", 99, "x")]),
    "on a hunk": ([r(*GUARD)], codex("@@ def nope\n-        return None\n+        return 0")),
    "on a diff": ([r(*GUARD)], diff("@@ -6 +6 @@\n-return None\n+return 0")),
    "to create what exists": ([Write("f", "a")], [Write("f", "a", create_only=True)]),
}


@pytest.mark.parametrize("expected, actual, reason", SAME.values(), ids=list(SAME))
def test_same(expected: list[Edit], actual: list[Edit], reason: str) -> None:
    assert (True, reason) == same_effect(expected, actual, FILES)[:2] == same_effect(actual, expected, FILES)[:2]


@pytest.mark.parametrize("expected, actual, reason", DIFFERENT.values(), ids=list(DIFFERENT))
def test_different(expected: list[Edit], actual: list[Edit], reason: str) -> None:
    assert (False, reason) == same_effect(expected, actual, FILES)[:2] == same_effect(actual, expected, FILES)[:2]


@pytest.mark.parametrize("good, bad", FAILS.values(), ids=list(FAILS))
def test_an_edit_that_fails_is_not_the_same(good: list[Edit], bad: list[Edit]) -> None:
    assert same_effect(good, bad, FILES)[:2] == (False, "actual_fails")
    assert same_effect(bad, good, FILES)[:2] == (False, "expected_fails")
    assert same_effect(good, good, FILES).same
