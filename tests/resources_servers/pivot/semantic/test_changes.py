"""Claims on edits: by themselves, and on a text that the history shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.types import JsonObject

PATH = "/r/a.py"
OLD = "def f(x):\n    if not x:\n        return 0\n    return x + 1\n"
NEW = OLD.replace("x + 1", "x + 2")


def editor(old: str, new: str, path: str = PATH) -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "str_replace", "path": path, "old_str": old, "new_str": new}


def opencode(old: str, new: str, **more: Any) -> tuple[str, JsonObject]:
    return "edit", {"filePath": PATH, "oldString": old, "newString": new, **more}


def patch(*lines: str, path: str = PATH) -> tuple[str, JsonObject]:
    body = "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"])
    return "apply_patch", {"input": body}


def create(text: str, path: str = PATH) -> tuple[str, JsonObject]:
    return "str_replace_editor", {"command": "create", "path": path, "file_text": text}


LINE = editor("    return x + 1", "    return x + 2")
SAME = [
    (LINE, LINE),
    (LINE, editor("    return x + 1", "    return x + 2", "/r/./b/../a.py")),
    (LINE, editor("        return 0\n    return x + 1", "        return 0\n    return x + 2")),
    (LINE, ("text_editor", {**LINE[1], "security_risk": "LOW"})),
    (LINE, ("file_editor", {**LINE[1], "view_range": None, "summary": "fix"})),
    (LINE, opencode("    return x + 1", "    return x + 2")),
    (LINE, opencode("    return x + 1", "    return x + 2", replaceAll=False)),
    (LINE, ("edit", {"path": PATH, "edits": [{"oldText": "    return x + 1", "newText": "    return x + 2"}]})),
    (LINE, patch("         return 0", "-    return x + 1", "+    return x + 2")),
    (LINE, ("apply_patch", {"patchText": patch("-    return x + 1", "+    return x + 2")[1]["input"]})),
    (create("x = 1\n"), create("x = 1")),
    (("write", {"filePath": PATH, "content": "x = 1\n"}), ("write_file", {"file_path": PATH, "content": "x = 1\n"})),
    (
        ("apply_patch", {"input": "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: ./a.py\n*** End Patch\n"}),
    ),
    (
        ("str_replace_editor", {"command": "insert", "path": PATH, "insert_line": 3, "new_str": "x"}),
        ("file_editor", {"command": "insert", "path": PATH, "insert_line": 3.0, "new_str": "x"}),
    ),
    (
        ("str_replace_editor", {"command": "undo_edit", "path": PATH}),
        ("str_replace_editor", {"command": "undo_edit", "path": "/r//a.py"}),
    ),
    (editor("    x = 1\n", ""), ("str_replace_editor", {**editor("    x = 1\n", "")[1], "new_str": None})),
]
DIFFERENT = [
    (LINE, editor("    return x + 1", "    return x - 2")),
    (LINE, editor("    return x + 1", "     return x + 2")),
    (LINE, editor("    return x + 1", "    return x + 2", "/r/b.py")),
    (LINE, editor("lorem ipsum dolor", "foo bar baz")),
    (LINE, editor("    return x + 1", "")),
    (LINE, opencode("    return x + 1", "    return x + 2", replaceAll=True)),
    (LINE, patch("-    return x + 1", "+    return x + 3")),
    (LINE, create(NEW)),
    (LINE, ("str_replace_editor", {"command": "view", "path": PATH})),
    (editor("    if not x:", "    if not x or y:"), editor("    if not x:", "    if x or y:")),
    (create("x = 1\n"), create("x = 2\n")),
    (create("x = 1\n"), create("x = 1\n", "/r/b.py")),
    (
        ("str_replace_editor", {"command": "insert", "path": PATH, "insert_line": 3, "new_str": "x"}),
        ("str_replace_editor", {"command": "insert", "path": PATH, "insert_line": 4, "new_str": "x"}),
    ),
    (
        ("str_replace_editor", {"command": "undo_edit", "path": PATH}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Delete File: {PATH}\n*** End Patch"}),
    ),
]
BAD_PATCHES = [
    "",
    "*** Begin Patch\n*** End Patch",
    "*** Begin Patch\n*** Update File: /r/a.py\n@@\n",
    "*** Begin Patch\n*** Change File: /r/a.py\n@@\n-a\n+b\n*** End Patch",
    "-    return x + 1\n+    return x + 2",
    "--- a/a.py\n+++ b/a.py\n@@ -1,9 +1,1 @@\n-a\n+b\n",
]


@pytest.mark.parametrize(("expected", "actual"), SAME)
def test_the_same_edit_scores_1(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    found = score(expected, actual)
    assert (found.reward, found.reason) == (1.0, "match"), found.detail


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT)
def test_another_edit_scores_0(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == 0.0


@pytest.mark.parametrize(("expected", "actual"), SAME + DIFFERENT)
def test_the_order_of_the_two_sides_does_not_matter(score: Callable[..., Any], expected: Any, actual: Any) -> None:
    assert score(expected, actual).reward == score(actual, expected).reward


@pytest.mark.parametrize("text", BAD_PATCHES)
def test_a_patch_that_does_not_parse_scores_0(score: Callable[..., Any], text: str) -> None:
    found = score(LINE, ("apply_patch", {"input": text}))
    assert found.reward == 0.0
    assert found.reason in ("bad_patch", "missing_argument")


def test_an_experts_patch_that_does_not_parse_is_matched_by_nothing(score: Callable[..., Any]) -> None:
    broken = ("apply_patch", {"input": "*** Begin Patch\nx\n*** End Patch"})
    assert score(broken, broken)[:2] == (0.0, "expected_unusable")


def numbered(text: str, first: int = 1) -> str:
    lines = text.rstrip("\n").split("\n")
    body = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(lines, first))
    return f"Here's the result of running `cat -n` on {PATH}:\n{body}"


def step(name: str, arguments: str, output: str, call_id: str = "c1") -> list[JsonObject]:
    return [
        {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


VIEWED = step("str_replace_editor", '{"command": "view", "path": "/r/a.py"}', numbered(OLD))
CAT = step("execute_bash", '{"command": "cd /r && cat a.py"}', OLD + "[Command finished with exit code 0]")
SED = step("exec_command", '{"cmd": "sed -n 1,4p /r/a.py"}', f"Chunk ID: 1\nProcess exited with code 0\nOutput:\n{OLD}")
WRITTEN = step("write", json.dumps({"filePath": PATH, "content": OLD}), "Wrote file successfully.")
TIMES_TWO = step(
    "str_replace_editor",
    '{"command": "str_replace", "path": "/r/a.py", "old_str": "x + 1", "new_str": "x * 2"}',
    "The file /r/a.py has been edited.",
    "c2",
)
TAGGED = [
    CAT[0],
    {**CAT[1], "output": f"<returncode>0</returncode>\n<output>\n{OLD}</output>"},
]
"""As mini-swe-agent notes it."""
WIDER = editor("        return 0", "        return 0\n    x = abs(x)")
INSERTED = ("str_replace_editor", {"command": "insert", "path": PATH, "insert_line": 3, "new_str": "    x = abs(x)"})
"""Equal in their effect on OLD, which the edits alone do not show."""
SHOWN = {"view": VIEWED, "cat": CAT, "tagged": TAGGED, "sed": SED, "write": WRITTEN}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize(
    "actual",
    [
        editor("x + 1", "x + 2"),
        editor("+ 1\n", "+ 2\n"),
        editor("1\n", "2\n"),
        editor(OLD.rstrip("\n"), NEW.rstrip("\n")),
        patch("     if not x:", "         return 0", "-    return x + 1", "+    return x + 2"),
    ],
)
def test_edits_of_a_text_that_was_shown_are_compared_by_what_comes_out(
    score: Callable[..., Any], shown: str, actual: Any
) -> None:
    found = score(LINE, actual, history=SHOWN[shown])
    assert (found.reward, found.reason) == (1.0, "match"), found.detail


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize(
    "actual",
    [
        editor("x + 1", "x + 3"),
        editor("x + 9", "x + 2"),
        editor("x", "y"),
        editor("return", "yield"),
    ],
)
def test_an_edit_that_comes_out_otherwise_or_cannot_be_made_scores_0(
    score: Callable[..., Any], shown: str, actual: Any
) -> None:
    assert score(LINE, actual, history=SHOWN[shown]).reward == 0.0


def test_a_whole_write_equals_the_replacement_that_gives_the_same_text(score: Callable[..., Any]) -> None:
    write = ("write", {"filePath": PATH, "content": NEW})
    assert score(write, LINE, history=VIEWED).reward == score(write, LINE, history=CAT).reward
    assert score(write, LINE, history=CAT).reward == 1.0
    assert score(write, LINE).reward == 0.0


@pytest.mark.parametrize("shown", SHOWN)
def test_edits_that_are_alike_only_on_the_text_need_it_shown(score: Callable[..., Any], shown: str) -> None:
    assert score(WIDER, INSERTED, history=SHOWN[shown]).reward == 1.0
    assert score(WIDER, INSERTED).reward == 0.0
    off = ("str_replace_editor", {**INSERTED[1], "insert_line": 2})
    assert score(WIDER, off, history=SHOWN[shown]).reward == 0.0


@pytest.mark.parametrize("shown", ["view", "cat", "write"])
def test_a_patch_whose_context_is_not_in_the_text_scores_0(score: Callable[..., Any], shown: str) -> None:
    wrong = patch("     if x:", "-    return x + 1", "+    return x + 2")
    assert score(LINE, wrong, history=SHOWN[shown]).reward == 0.0


def test_an_edit_in_the_history_changes_what_is_known(score: Callable[..., Any]) -> None:
    expected = editor("    return x * 2", "    x = abs(x)\n    return x * 2")
    assert score(expected, INSERTED, history=VIEWED + TIMES_TWO).reward == 1.0
    assert score(expected, INSERTED, history=VIEWED).reward == 0.0


def test_an_edit_that_was_refused_leaves_the_text_as_it_was(score: Callable[..., Any]) -> None:
    refused = step("str_replace_editor", json.dumps(editor("x + 7", "x + 8")[1]), "No replacement.", "c2")
    assert score(WIDER, INSERTED, history=VIEWED + refused).reward == 1.0


def test_a_text_on_which_the_experts_edit_cannot_be_made_is_not_believed(score: Callable[..., Any]) -> None:
    stale = step("str_replace_editor", '{"command": "view", "path": "/r/a.py"}', numbered("other = 1\n"))
    wider = editor("        return 0\n    return x + 1", "        return 0\n    return x + 2")
    assert score(LINE, wider, history=stale).reward == 1.0


def test_a_command_that_writes_the_file_makes_it_unknown(score: Callable[..., Any]) -> None:
    changed = step("execute_bash", '{"command": "sed -i s/0/1/ /r/a.py"}', "", "c2")
    tested = step("execute_bash", '{"command": "python /r/a.py"}', "", "c2")
    assert score(WIDER, INSERTED, history=CAT + tested).reward == 1.0
    assert score(WIDER, INSERTED, history=CAT + changed).reward == 0.0


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("black /r/a.py", False),
        ("cd /r && black .", False),
        ("ls\npython -m isort -q src", False),
        ("ruff check --fix; ruff format", False),
        ("black --check .", True),
        ("python /r/fix.py /r/a.py", False),
        ("/r/fix.sh /r/a.py", False),
        ("python /r/a.py", True),
        ("python -m pytest /r/a.py", True),
        ("grep -n black /r/other.py", True),
        ("cat /r/a.py | wc -l", True),
    ],
)
def test_what_formats_files_or_is_given_the_file_makes_it_unknown(
    score: Callable[..., Any], command: str, known: bool
) -> None:
    ran = step("execute_bash", json.dumps({"command": command}), "", "c2")
    assert score(WIDER, INSERTED, history=CAT + ran).reward == float(known)


def test_a_file_is_found_in_the_history_by_a_name_that_json_escapes(score: Callable[..., Any]) -> None:
    path = "/r/größe.py"
    view = json.dumps({"command": "view", "path": path})
    shown = step("str_replace_editor", view, numbered(OLD))
    wider = editor("        return 0", "        return 0\n    x = abs(x)", path)
    inserted = ("str_replace_editor", {**INSERTED[1], "path": path})
    assert score(wider, inserted, history=shown).reward == 1.0
    assert score(wider, inserted).reward == 0.0


def test_lines_that_were_read_are_numbered_as_the_rows_schema_counts(score: Callable[..., Any]) -> None:
    offset = {"type": "integer", "description": "The 0-based line number to start from"}
    parameters = {"properties": {"file_path": {"type": "string"}, "offset": offset}}
    editor_tool = {"type": "function", "name": "str_replace_editor"}
    zero_based = {"type": "function", "name": "read_file", "parameters": parameters}
    one_based = {"type": "function", "name": "read_file"}
    shown = step("read_file", '{"file_path": "/r/a.py", "offset": 1}', OLD.split("\n", 1)[1])
    assert score(WIDER, INSERTED, history=shown, tools=[editor_tool, zero_based]).reward == 1.0
    assert score(WIDER, INSERTED, history=shown, tools=[editor_tool, one_based]).reward == 0.0


def test_a_patch_given_to_a_shell_equals_the_edit_it_makes(score: Callable[..., Any]) -> None:
    text = patch("-    return x + 1", "+    return x + 2", path="a.py")[1]["input"]
    shell = ("shell", {"command": ["bash", "-lc", f"cd /r && apply_patch <<'EOF'\n{text}\nEOF"]})
    assert score(LINE, shell).reward == 1.0
    assert score(shell, LINE).reward == 1.0
    assert score(LINE, ("shell", {"command": ["apply_patch", text], "workdir": "/q"})).reward == 0.0


def test_the_history_of_another_file_shows_nothing(score: Callable[..., Any]) -> None:
    other = step("str_replace_editor", '{"command": "view", "path": "/q/a.py"}', numbered(OLD))
    assert score(WIDER, INSERTED, history=other).reward == 0.0


@pytest.mark.parametrize(
    "items",
    [
        [None, 1, "x"],
        [{"type": "function_call"}],
        [{"type": "function_call", "name": "read", "arguments": '{"filePath": "/r/a.py"}'}],
        [{"type": "function_call", "name": 7, "arguments": ["a.py"], "call_id": {}}],
        step("read", '{"filePath": "/r/a.py"', "x"),
        step("execute_bash", '{"command": "cat \'a.py"}', "x"),
        [
            *step("execute_bash", '{"command": "cat /r/a.py"}', "x")[:1],
            {"type": "function_call_output", "call_id": "c1"},
        ],
    ],
)
def test_a_history_that_cannot_be_read_shows_nothing(score: Callable[..., Any], items: list[Any]) -> None:
    assert score(WIDER, INSERTED, history=items).reward == 0.0
    assert score(WIDER, WIDER, history=items).reward == 1.0


FIVE = "    a = first(x)\n    b = second(a, x)\n    c = b + a\n    n = 1\n    return n * c"
FIVE_NEW = FIVE.replace("n = 1", "n = 2")


def shrunk(start: str, end: str) -> tuple[str, JsonObject]:
    """The edit of `FIVE` with only the old text from `start` to `end`."""
    first, last = FIVE.index(start), FIVE.index(end) + len(end)
    old = FIVE[first:last]
    return editor(old, old.replace("= 1", "= 2"))


@pytest.mark.parametrize(
    ("actual", "reward"),
    [
        (shrunk("= 1", "= 1"), 0),
        (shrunk("n = 1", "n = 1"), 0),
        (shrunk("    c = b", "n = 1"), 0),
        (shrunk("    b = second", "n * c"), 1),
        (shrunk("    b = second", "n = 1"), 1),
        (editor(FIVE, FIVE_NEW), 1),
        (editor("def f(x):\n" + FIVE, "def f(x):\n" + FIVE_NEW), 1),
        (patch("-    n = 1", "+    n = 2"), 1),
    ],
)
def test_where_the_file_is_not_shown_a_short_old_text_may_stand_twice(
    score: Callable[..., Any], actual: Any, reward: float
) -> None:
    assert score(editor(FIVE, FIVE_NEW), actual).reward == reward


def test_where_the_file_is_shown_a_short_old_text_stands_where_it_does(score: Callable[..., Any]) -> None:
    call = {
        "type": "function_call",
        "call_id": "c",
        "name": "bash",
        "arguments": json.dumps({"command": f"cat {PATH}"}),
    }
    for text, reward in ((f"def f(x):\n{FIVE}\n", 1), (f"m = 1\ndef f(x):\n{FIVE}\n", 0)):
        output = {"type": "function_call_output", "call_id": "c", "output": text}
        assert score(editor(FIVE, FIVE_NEW), shrunk("= 1", "= 1"), history=[call, output]).reward == reward
