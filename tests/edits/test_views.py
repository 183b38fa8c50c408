"""`parse_numbered` and `assemble`: what tools have shown of a file, as text with line numbers."""

import pytest

from paddock.edits import KnownText, assemble, parse_numbered, strip_exec_header

VIEW = "Here's the result of running `cat -n` on /w/f.py:\n    40\tdef f():\n    41\t\n    42\t    return 1\n"
PART = KnownText(40, "def f():\n\n    return 1\n", complete=False)
WHOLE = KnownText(1, "def f():\n    return 1\n", complete=True)
HEADER = "Chunk ID: 0a1b2c\nWall time: 0.0512 seconds\nProcess exited with code 0\nOriginal token count: 12\nOutput:\n"

OPENCODE = "<path>/w/f.py</path>\n<type>file</type>\n<content>\n"

READ: dict[str, tuple[str, KnownText | None]] = {
    "a view of an editor": (VIEW, PART),
    "a view with a note before": ("NOTE: We only show up to 42.\n" + VIEW, PART),
    "a snippet after an edit": ("The file /w/f.py has been edited. " + VIEW + "Review the changes.", PART),
    "a view with the newline at the end": (
        "Here's the result of running `cat -n` on /w/f.py:\n     1\ta\n     2\t\n",
        KnownText(1, "a\n", complete=False),
    ),
    "cat -n": ("     1\ta\n     2\tb\tc\n", KnownText(1, "a\nb\tc\n", complete=False)),
    "cat -n after Codex's header": (HEADER + "    40\tdef f():\n    41\t\n    42\t    return 1\n", PART),
    "cat -n after the older header": (
        "Exit code: 0\nWall time: 0 seconds\nOutput:\n     7\tx",
        KnownText(7, "x\n", complete=False),
    ),
    "cat -n before a terminal's notes": (
        "     7\tx\n[The command completed with exit code 0.]",
        KnownText(7, "x\n", complete=False),
    ),
    "OpenCode's read": (
        OPENCODE + "1: def f():\n2:     return 1\n\n(End of file - total 2 lines)\n</content>",
        WHOLE,
    ),
    "OpenCode's read of a part": (
        OPENCODE + "40: def f():\n41: \n42:     return 1\n\n(File has more lines.)\n</content>",
        PART,
    ),
    "OpenCode's earlier read": (
        "<file>\n00001| def f():\n00002|     return 1\n\n(End of file - total 2 lines)\n</file>",
        WHOLE,
    ),
    "a part up to the end": (
        "<content>\n2: x\n\n(End of file - total 2 lines)\n</content>",
        KnownText(2, "x\n", complete=False),
    ),
    "numbers with a gap": ("     1\ta\n     3\tb\n", KnownText(1, "a\n", complete=False)),
    "a clipped view": (
        "     1\ta\n     2\t<response clipped><NOTE>...\n     3\tc\n",
        KnownText(1, "a\n", complete=False),
    ),
    "a line cut short": (f"<content>\n1: a\n2: {'x' * 2000}...\n3: c\n", KnownText(1, "a\n", complete=False)),
    "a directory": ("Here's the files and directories up to 2 levels deep in /w:\n/w/f.py\n", None),
    "plain text": ("def f():\n    return {\n1: 2}\n", None),
    "an error": ("The path /w/f.py does not exist. Please provide a valid path.", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize("output, text", READ.values(), ids=list(READ))
def test_reads(output: str, text: KnownText | None) -> None:
    assert parse_numbered(output) == text


def test_the_header_of_a_shell_tool_is_taken_off() -> None:
    assert strip_exec_header(HEADER + "a\nOutput:\n") == "a\nOutput:\n"


@pytest.mark.parametrize("output", ["a\n", "", "Output of it:\n", "Wall time: none\nOutput\n"])
def test_other_output_stays_as_it_is(output: str) -> None:
    assert strip_exec_header(output) == output


def part(first: int, text: str) -> KnownText:
    return KnownText(first, text, complete=False)


ASSEMBLED: dict[str, tuple[list[KnownText], KnownText | None]] = {
    "nothing": ([], None),
    "one": ([part(4, "a\n")], part(4, "a\n")),
    "one that adjoins above": ([part(3, "x\n"), part(4, "a\n")], part(3, "x\na\n")),
    "one that adjoins below": ([part(5, "x\n"), part(4, "a\n")], part(4, "a\nx\n")),
    "one that overlaps": ([part(2, "x\ny\na\n"), part(4, "a\nb\n")], part(2, "x\ny\na\nb\n")),
    "one within": ([part(2, "x\n"), part(1, "w\nx\ny\n")], part(1, "w\nx\ny\n")),
    "two by way of a third": ([part(1, "a\n"), part(2, "b\n"), part(3, "c\n")], part(1, "a\nb\nc\n")),
    "one out of date": ([part(4, "old\nx\n"), part(4, "a\n")], part(4, "a\n")),
    "one far away": ([part(9, "x\n"), part(4, "a\n")], part(4, "a\n")),
    "a whole file": ([KnownText.whole("w\nx\n"), part(2, "x\n")], KnownText.whole("w\nx\n")),
    "a part after a whole file out of date": ([KnownText.whole("w\nold\n"), part(2, "x\n")], part(2, "x\n")),
    "a whole file that says it ends earlier": ([KnownText.whole("w\n"), part(1, "w\nx\n")], part(1, "w\nx\n")),
}


@pytest.mark.parametrize("views, text", ASSEMBLED.values(), ids=list(ASSEMBLED))
def test_assembles(views: list[KnownText], text: KnownText | None) -> None:
    assert assemble(views) == text
