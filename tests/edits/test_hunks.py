"""Where Codex's hunks go in a text, as its apply_patch has it; every expectation here was seen of the program."""

import pytest

from paddock.edits import EditError, apply, parse_codex_patch

APPLIED: dict[str, tuple[str, str, str]] = {
    "a line is replaced": ("@@\n-b\n+B", "a\nb\nc\n", "a\nB\nc\n"),
    "the first place is taken": ("@@\n-a\n+A", "a\na\n", "A\na\n"),
    "a later hunk goes below the one before": ("@@\n-a\n+A\n@@\n-a\n+B", "a\nx\na\n", "A\nx\nB\n"),
    "an anchor leads to the place below it": ("@@ g:\n-x\n+y", "f:\nx\ng:\nx\n", "f:\nx\ng:\ny\n"),
    "an anchor may differ in space around": ("@@   g   \n-b\n+B", "  g\nb\n", "  g\nB\n"),
    "a missing final newline is added": ("@@\n-b\n+B", "a\nb\nc", "a\nB\nc\n"),
    "all lines can go": ("@@\n-a", "a\n", ""),
    "an addition goes to the end": ("@@\n+x", "a\nb\n", "a\nb\nx\n"),
    "an addition goes to the end, whatever its anchor": ("@@ a\n+x", "a\nb\n", "a\nb\nx\n"),
    "an addition goes below empty last lines": ("@@\n+x", "a\n\n", "a\n\nx\n"),
    "an addition goes into an empty file": ("@@\n+x", "", "x\n"),
    "additions keep their order": ("@@\n+x\n@@\n+y\n@@\n-b\n+B", "a\nb\n", "a\nB\nx\ny\n"),
    "trailing space does not count": ("@@\n-a   \n+A", "a\nb\n", "A\nb\n"),
    "leading space does not count": ("@@\n-   a\n+A", "a\nb\n", "A\nb\n"),
    "an exact place comes before a looser one above": ("@@\n-a\n+A", " a\na\n", " a\nA\n"),
    "typographic punctuation does not count": ("@@\n-x - 'y'\n+A", "x – ‘y’\n", "A\n"),
    "a kept line stays as the file has it": ("@@\n a\n-b\n+B", "  a\nb\n", "  a\nB\n"),
    "the end of the file is the end": ("@@\n b\n+x\n*** End of File", "b\na\nb\n", "b\na\nb\nx\n"),
    "an empty last old line may be missing": ("@@\n-a\n-\n+A", "a\n", "A\n"),
    "an empty last context line may be missing": ("@@\n-a\n+A\n ", "a\n", "A\n"),
    "line endings are kept, and new lines get the first": ("@@\n-b\n+B", "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
    "mixed line endings stay mixed": ("@@\n-b\n+B", "a\nb\r\nc\r\n", "a\nB\nc\r\n"),
    "a lone carriage return ends a line": ("@@\n-b\n+B", "a\rb\rc", "a\rB\rc\r"),
    "context alone changes nothing but the final newline": ("@@\n a", "a", "a\n"),
}


@pytest.mark.parametrize("body, text, result", APPLIED.values(), ids=list(APPLIED))
def test_a_codex_hunk_is_placed(body: str, text: str, result: str) -> None:
    edits = parse_codex_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    assert apply(edits, {"f": text}) == {"f": result}


MISPLACED: dict[str, tuple[str, str, str]] = {
    "missing lines": ("@@\n-z\n+B", "a\nb\n", "Failed to find expected lines in f:\nz"),
    "a missing anchor": ("@@ zz\n-b\n+B", "a\nb\n", "Failed to find context 'zz' in f"),
    "the anchor's own line": ("@@ a\n-a\n+B", "a\nb\n", "Failed to find expected lines in f:\na"),
    "hunks out of order": ("@@\n-b\n+B\n@@\n-a\n+A", "a\nb\n", "Failed to find expected lines in f:\na"),
    "an end that is not there": ("@@\n b\n+x\n*** End of File", "b\na\n", "Failed to find expected lines in f:\nb"),
    "an end that a hunk took": (
        "@@\n-a\n+A\n@@\n-a\n+B\n*** End of File",
        "a\n",
        "Failed to find expected lines in f:",
    ),
    "a header of a unified diff": ("@@ -1 +1 @@\n-a\n+A", "a\n", "Failed to find context '-1 +1 @@' in f"),
    "other case": ("@@\n-A\n+B", "a\n", "Failed to find expected lines in f:\nA"),
    "other space inside": ("@@\n-a  b\n+B", "a b\n", "Failed to find expected lines in f:\na  b"),
}


@pytest.mark.parametrize("body, text, message", MISPLACED.values(), ids=list(MISPLACED))
def test_a_codex_hunk_has_no_place(body: str, text: str, message: str) -> None:
    edits = parse_codex_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    with pytest.raises(EditError) as caught:
        apply(edits, {"f": text})
    assert caught.value.kind == "no_match"
    assert caught.value.message.startswith(message)
