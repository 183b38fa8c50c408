"""`parse_codex_patch` reads what Codex's apply_patch reads, and refuses the rest with its message and line."""

import pytest

from paddock.edits import Delete, Edit, Hunk, Hunks, PatchError, Write, parse_codex_patch

UPDATE = "*** Update File: f.py\n"


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


def hunks(*found: Hunk, move_to: str | None = None) -> list[Edit]:
    return [Hunks("f.py", found, move_to)]


CHANGE = Hunk(("-a", "+b"))

ACCEPTED: dict[str, tuple[str, list[Edit]]] = {
    "an end marker before the last line": (patch(UPDATE + "@@\n-a\n+b\n*** End Patch\n"), hunks(CHANGE)),
    "a hunk": (patch(UPDATE + "@@\n-a\n+b"), hunks(CHANGE)),
    "a hunk without a header, if it is the first": (patch(UPDATE + "-a\n+b"), hunks(CHANGE)),
    "an anchor": (patch(UPDATE + "@@ def f():\n-a\n+b"), hunks(Hunk(("-a", "+b"), "def f():"))),
    "an anchor that is indented": (
        patch(UPDATE + "@@     def f():\n-a\n+b"),
        hunks(Hunk(("-a", "+b"), "    def f():")),
    ),
    "an anchor of spaces, which is none": (patch(UPDATE + "@@   \n-a\n+b"), hunks(CHANGE)),
    "context lines": (patch(UPDATE + "@@\n x\n-a\n+b\n y"), hunks(Hunk((" x", "-a", "+b", " y")))),
    "an empty line as empty context": (patch(UPDATE + "@@\n-a\n\n+b"), hunks(Hunk(("-a", " ", "+b")))),
    "an empty line before the first hunk, as context": (patch(UPDATE + "\n@@\n-a\n+b"), hunks(Hunk((" ",)), CHANGE)),
    "two hunks": (patch(UPDATE + "@@\n-a\n+b\n@@ q\n-c"), hunks(CHANGE, Hunk(("-c",), "q"))),
    "the end of the file": (patch(UPDATE + "@@\n-a\n+b\n*** End of File"), hunks(Hunk(("-a", "+b"), at_end=True))),
    "blank lines and a hunk after the end of the file": (
        patch(UPDATE + "@@\n-a\n*** End of File\n\n\n@@\n+z"),
        hunks(Hunk(("-a",), at_end=True), Hunk(("+z",))),
    ),
    "a move": (patch(UPDATE + "*** Move to: g.py\n@@\n-a\n+b"), hunks(CHANGE, move_to="g.py")),
    "a new file": (patch("*** Add File: n\n+x\n+\n+y"), [Write("n", "x\n\ny\n")]),
    "a new file without lines": (patch("*** Add File: n"), [Write("n", "")]),
    "a deletion": (patch("*** Delete File: n"), [Delete("n")]),
    "several files": (
        patch("*** Add File: n\n+x\n*** Delete File: o\n" + UPDATE + "-a\n+b\n*** Add File: p\n+y"),
        [Write("n", "x\n"), Delete("o"), *hunks(CHANGE), Write("p", "y\n")],
    ),
    "one file twice": (patch(UPDATE + "-a\n+b\n" + UPDATE + "-b\n+c"), [*hunks(CHANGE), *hunks(Hunk(("-b", "+c")))]),
    "space around a header": (patch("  *** Add File: n  \n+x"), [Write("n", "x\n")]),
    "space inside a path": (patch("*** Add File:  my file\n+x"), [Write(" my file", "x\n")]),
    "space around the markers": (" *** Begin Patch \n*** Delete File: n\n *** End Patch \n\n", [Delete("n")]),
    "a heredoc": (f"<<EOF\n{patch('*** Delete File: n')}\nEOF", [Delete("n")]),
    "a heredoc in single quotes": (f"<<'EOF'\n{patch('*** Delete File: n')}\nEOF\n", [Delete("n")]),
    "a heredoc in double quotes": (f'<<"EOF"\n{patch("*** Delete File: n")}\nEOF', [Delete("n")]),
    "carriage returns": (patch(UPDATE + "@@\n-a\n+b").replace("\n", "\r\n"), hunks(CHANGE)),
    "lines that look like headers behind a plus": (
        patch("*** Add File: n\n+*** Add File: m\n++x"),
        [Write("n", "*** Add File: m\n+x\n")],
    ),
    "a removed line that begins with dashes": (patch(UPDATE + "@@\n--- a"), hunks(Hunk(("--- a",)))),
    "no file at all": ("*** Begin Patch\n*** End Patch", []),
}


@pytest.mark.parametrize("text, edits", ACCEPTED.values(), ids=list(ACCEPTED))
def test_reads(text: str, edits: list[Edit]) -> None:
    assert parse_codex_patch(text) == edits


NO_BEGIN = "The first line of the patch must be '*** Begin Patch'"
NO_END = "The last line of the patch must be '*** End Patch'"
NO_LINES = "Update hunk does not contain any lines"
EMPTY = "Update file hunk for path 'f.py' is empty"

REFUSED: dict[str, tuple[str, str, int]] = {
    "a file after the end marker": (
        patch(UPDATE + "@@\n-a\n+b\n*** End Patch\n*** Delete File: g.py"),
        "The last line of the patch must be '*** End Patch'",
        0,
    ),
    "nothing": ("", NO_END, 0),
    "prose": ("please apply this", NO_BEGIN, 0),
    "only a beginning": ("*** Begin Patch", NO_END, 0),
    "only an end": ("*** End Patch", NO_BEGIN, 0),
    "no end": (patch(UPDATE + "@@\n-a\n+b").removesuffix("*** End Patch"), NO_END, 0),
    "text after the end": (patch("*** Delete File: n") + "\nbye", NO_END, 0),
    "a fence around it": (f"```\n{patch('*** Delete File: n')}\n```", NO_BEGIN, 0),
    "a command before it": (f"apply_patch <<'EOF'\n{patch('*** Delete File: n')}\nEOF", NO_BEGIN, 0),
    "a heredoc of another word": (f"<<'PATCH'\n{patch('*** Delete File: n')}\nPATCH", NO_BEGIN, 0),
    "a heredoc without an end": (f"<<EOF\n*** Begin Patch\n{UPDATE}-a\nEOF", NO_END, 0),
    "an update without hunks": (patch(UPDATE.strip()), EMPTY, 2),
    "an update without hunks before another file": (patch(UPDATE + "*** Delete File: n"), EMPTY, 2),
    "a move alone": (patch(UPDATE + "*** Move to: g.py"), EMPTY, 2),
    "a hunk without lines": (patch(UPDATE + "@@"), NO_LINES, 4),
    "an end of file without lines": (patch(UPDATE + "@@\n*** End of File"), NO_LINES, 4),
    "an unknown header": (patch("*** Rename File: n"), "'*** Rename File: n' is not a valid hunk header.", 2),
    "a header without a space": (patch("*** Delete File:n"), "'*** Delete File:n' is not a valid hunk header.", 2),
    "a header without a path": (patch("*** Delete File: "), "'*** Delete File:' is not a valid hunk header.", 2),
    "a header in lower case": (patch("*** delete file: n"), "'*** delete file: n' is not a valid hunk header.", 2),
    "an unmarked line in a new file": (patch("*** Add File: n\n+x\ny"), "'y' is not a valid hunk header.", 4),
    "an empty line in a new file": (patch("*** Add File: n\n+x\n\n+y"), "'' is not a valid hunk header.", 4),
    "an unmarked line in a hunk": (patch(UPDATE + "@@\n-a\nb"), "Expected update hunk to start with a @@", 5),
    "an unmarked line after @@": (patch(UPDATE + "@@\nb"), "Unexpected line found in update hunk: 'b'.", 4),
    "an unmarked first line": (patch(UPDATE + "b"), "Unexpected line found in update hunk: 'b'.", 3),
    "two anchors in a row": (patch(UPDATE + "@@ a\n@@ b\n-c"), "Unexpected line found in update hunk: '@@ b'.", 4),
    "a hunk without a header after the end of the file": (
        patch(UPDATE + "@@\n-a\n*** End of File\n+b"),
        "Expected update hunk to start with a @@",
        6,
    ),
    "a move after a hunk": (patch(UPDATE + "@@\n-a\n*** Move to: g"), "Expected update hunk to start with a @@", 5),
    "a file after @@": (patch(UPDATE + "@@\n*** Delete File: n"), "Unexpected line found in update hunk", 4),
}


@pytest.mark.parametrize("text, message, line", REFUSED.values(), ids=list(REFUSED))
def test_refuses(text: str, message: str, line: int) -> None:
    with pytest.raises(PatchError) as caught:
        parse_codex_patch(text)
    assert caught.value.message.startswith(message)
    assert caught.value.line == line
