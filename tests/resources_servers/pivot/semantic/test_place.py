"""Claims on where one is: the row's own key, what the history shows, the server's setting, in that order."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import RowError
from paddock.resources_servers.pivot.semantic import SemanticOptions, compare, row_cwd
from paddock.resources_servers.pivot.semantic.paths import resolve
from paddock.resources_servers.pivot.semantic.place import MAX_ITEMS, Places
from paddock.resources_servers.pivot.task import ExpectedCall
from paddock.types import JsonObject
from paddock.types.responses import call_item


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def ran(command: str, output: str = "", tool: str = "execute_bash", **more: Any) -> list[JsonObject]:
    call = call_item(tool, json.dumps({"command": command, **more}))
    return [call, {"type": "function_call_output", "call_id": call["call_id"], "output": output}]


def place(
    *items: JsonObject | list[JsonObject], instructions: str = "", cwd: str | None = None, **row: Any
) -> str | None:
    flat = [item for entry in items for item in (entry if isinstance(entry, list) else [entry])]
    return Places({"instructions": instructions, "input": flat}, SemanticOptions(cwd=cwd), row).last


NOTE = (
    "a.py\n[The command completed with exit code 0.]\n[Current working directory: /testbed]\n[Python interpreter: /p]"
)
UPLOADED = user("I've uploaded a python code repository in the directory /testbed. Fix it.")

PROMPTS = [
    "<environment_context>\n  <cwd>/testbed</cwd>\n</environment_context>",
    "<env>\n  Working directory: /testbed\n  Is directory a git repo: Yes\n</env>",
    "# Environment\n - Primary working directory: /testbed\n",
    "Your current working directory is `/testbed`.",
    "I've uploaded a python code repository in the directory /testbed. Consider the issue:",
    "<uploaded_files>\n/testbed\n</uploaded_files>",
    "- MODIFY: source files in /testbed (this is the working directory for all your subsequent commands)",
    "I'm currently working in the directory: /testbed",
    "(Open file: n/a)\n(Current directory: /testbed)\nbash-$",
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_that_says_where_the_work_is_is_believed(prompt: str) -> None:
    assert place(user(prompt), *ran("ls")) == "/testbed"
    assert place({"role": "system", "content": prompt}, user("Fix it.")) == "/testbed"
    assert place(user("Fix it."), instructions=prompt) == "/testbed"


@given(st.text(alphabet="/ab .(\n", max_size=40))
def test_the_path_before_a_statement_is_that_of_its_whole_word(text: str) -> None:
    statement = "(this is the working directory"
    found = re.search(rf"(/[^\s`'\"<>()\[\],;]*) {re.escape(statement)}", f"{text} {statement}")
    assert place(user(f"{text} {statement}")) == (found and resolve(found[1].rstrip(".:") or "/", None))


def test_a_call_that_is_the_experts_own_is_the_same_wherever_it_runs() -> None:
    went = [*ran("cd $X"), *ran("ls")]
    expected = ExpectedCall(type="function_call", name="execute_bash", arguments='{"command": "cat a.py"}')
    for arguments in ('{"command": "cat a.py"}', '{"command":"cat a.py"}'):
        output = [call_item("execute_bash", arguments)]
        assert compare(expected, {"output": output}, {"input": [UPLOADED, *went]}).reward == 1.0


HISTORIES: list[tuple[Sequence[Any], str | None]] = [
    ([], None),
    ([ran("ls", NOTE)], "/testbed"),
    ([ran("ls", NOTE), ran("cd src", "[Current working directory: /testbed/src]")], "/testbed/src"),
    ([ran("pwd", "/work")], "/work"),
    ([ran("cd /a && pwd", "/a")], "/a"),
    ([ran("pwd", "/work", tool="exec_command")], "/work"),
    ([ran("cd /a && pwd", "/a", tool="exec_command")], None),
    ([ran("cat where.txt; pwd", "x\n/work")], "/work"),
    ([ran("cd /a")], "/a"),
    ([ran("cd /a && pytest -q", "1 failed")], "/a"),
    ([ran("pytest -q && cd /a")], "/a"),
    ([ran("cd /a && cd b"), ran("ls")], "/a/b"),
    ([ran("cd /a"), ran("cd b"), ran("cd ..")], "/a"),
    ([UPLOADED, ran("cd src"), ran("ls")], "/testbed/src"),
    ([UPLOADED, ran("cd /no", "bash: cd: /no: No such file or directory")], "/testbed"),
    ([UPLOADED, ran("(cd /tmp && ls)")], "/testbed"),
    ([UPLOADED, ran("ls | (cd /tmp; cat)")], "/testbed"),
    ([UPLOADED, ran("cd $HERE")], None),
    ([UPLOADED, ran("cd -")], None),
    ([UPLOADED, ran("test -d x || cd /y")], None),
    ([UPLOADED, ran("for d in a b; do cd $d; done")], None),
    ([UPLOADED, ran("pushd /tmp")], None),
    ([UPLOADED, ran("cd $HERE"), ran("ls", NOTE)], "/testbed"),
    ([UPLOADED, ran("cd /tmp && ls", tool="shell")], "/testbed"),
    ([UPLOADED, ran("cd /testbed && ls", tool="bash")], "/testbed"),
    ([UPLOADED, ran("cd /tmp && ls", tool="bash")], None),
    ([ran("ls", tool="shell", workdir="/a"), ran("make", tool="shell", workdir="/a")], "/a"),
    ([ran("ls", tool="shell", workdir="/a"), ran("make", tool="shell", workdir="/b")], None),
    ([user("<cwd>/a</cwd>"), ran("ls", tool="shell"), user("<cwd>/b</cwd>"), ran("ls", tool="shell")], "/b"),
    ([{"role": "assistant", "content": "Working directory: /x"}], None),
]


@pytest.mark.parametrize(("items", "expected"), HISTORIES)
def test_the_newest_evidence_of_a_history_counts(items: Sequence[Any], expected: str | None) -> None:
    assert place(*items) == expected


def test_the_row_comes_before_the_history_and_the_setting_behind_both() -> None:
    assert place(ran("ls", NOTE), cwd="/set") == "/testbed"
    assert place(ran("ls"), cwd="/set") == "/set"
    assert place(ran("ls", NOTE), cwd="/set", metadata={"cwd": "/meta"}) == "/meta"
    both = {"cwd": "/row/", "metadata": {"cwd": "/meta"}}
    assert Places({"input": ran("ls", NOTE)}, SemanticOptions(), both).last == "/row"


@pytest.mark.parametrize("value", ["testbed", "", 7, ["/a"]])
def test_a_rows_cwd_that_is_no_absolute_path_is_the_rows_fault_and_its_key_is_named(value: Any) -> None:
    with pytest.raises(RowError, match=r"^cwd: "):
        row_cwd({"cwd": value})
    with pytest.raises(RowError, match=r"^metadata\.cwd: "):
        row_cwd({"metadata": {"cwd": value}})


def test_only_the_newest_items_are_read() -> None:
    assert place(ran("cd /a"), *[ran("ls")] * (MAX_ITEMS // 2 - 1)) == "/a"
    assert place(ran("cd /a"), *[ran("ls")] * (MAX_ITEMS // 2)) is None


ENTERS = '{"command": "cd /testbed && pytest t.py"}'
EXPECTED = ExpectedCall(type="function_call", name="execute_bash", arguments=ENTERS)


@pytest.mark.parametrize(
    "prompt",
    [
        "Directory or environment variable changes are not persistent. Every action is executed in a new subshell.",
        "Note: each command runs in a new shell.",
    ],
)
def test_where_prompts_say_that_no_cd_lasts_none_does(prompt: str) -> None:
    start = user(f"The working directory is /testbed. {prompt}")
    assert place(start, *ran("cd tests && ls", tool="bash")) == "/testbed"
    assert place(user("The working directory is /testbed."), *ran("cd tests && ls", tool="bash")) is None
    assert place(start, *ran("cd tests", tool="execute_bash")) == "/testbed/tests"


def test_a_comparison_uses_the_place_that_the_history_shows() -> None:
    response = {"output": [call_item("execute_bash", '{"command": "pytest t.py"}')]}
    assert compare(EXPECTED, response, {}).reward == 0.0
    assert compare(EXPECTED, response, {"input": ran("ls", NOTE)}).reward == 1.0
    assert compare(EXPECTED, response, {"input": ran("cd /elsewhere")}).reward == 0.0
    assert compare(EXPECTED, response, {}, SemanticOptions(), {"cwd": "/testbed"}).reward == 1.0
    assert compare(EXPECTED, response, {"input": ran("ls", NOTE)}, SemanticOptions(), {"cwd": "/other"}).reward == 0.0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["<cwd>/a</cwd>", "cd /a", "/"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "output", "name", "arguments", "call_id"]), inner)
    ),
    max_leaves=12,
)


@given(value=json_values)
def test_any_history_gives_an_absolute_path_or_none(value: Any) -> None:
    for params in ({"input": value}, {"input": [value]}, {"instructions": value}, value):
        found = Places(params, SemanticOptions(), {}).last
        assert found is None or found.startswith("/")


@pytest.mark.parametrize(
    ("history", "before", "last"),
    [
        ([UPLOADED, *ran("cat a.py"), *ran("cd /q"), *ran("ls")], {1: "/testbed", 3: "/testbed", 5: "/q"}, "/q"),
        (
            [*ran("ls", NOTE), *ran("cd src", NOTE.replace("/testbed", "/testbed/src")), *ran("ls")],
            {0: None, 2: "/testbed", 4: "/testbed/src"},
            "/testbed/src",
        ),
        ([*ran("ls"), *ran("cd /r && ls"), *ran("ls")], {0: None, 2: None, 4: "/r"}, "/r"),
        ([*ran("ls"), *ran("ls", NOTE)], {0: "/testbed", 2: "/testbed"}, "/testbed"),
    ],
)
def test_each_step_has_the_place_that_it_ran_in(
    history: list[JsonObject], before: dict[int, str | None], last: str
) -> None:
    places = Places({"input": history}, SemanticOptions(), {})
    assert {index: places.before(index) for index in before} == before
    assert places.last == last


def test_a_rows_own_place_is_where_its_past_steps_ran_unless_they_went_elsewhere() -> None:
    stayed = Places({"input": [*ran("ls"), *ran("cd /r && ls")]}, SemanticOptions(), {"cwd": "/r"})
    went = Places({"input": [*ran("ls"), *ran("cd sub")]}, SemanticOptions(), {"cwd": "/r/sub"})
    assert (stayed.before(0), stayed.last) == ("/r", "/r")
    assert (went.before(0), went.last) == (None, "/r/sub")


def test_a_past_view_shows_the_file_of_the_place_that_it_ran_in() -> None:
    shown = [*ran("cat a.py", "x = 1\n"), *ran("cd /q"), *ran("cat a.py", "y = 1\ny = 1\n")]
    tool = "str_replace_editor"

    def edit(path: str, new: str) -> JsonObject:
        arguments = {"command": "str_replace", "path": path, "old_str": "x = 1", "new_str": new}
        return call_item(tool, json.dumps(arguments))

    def reward(path: str) -> float:
        expected = ExpectedCall(type="function_call", name=tool, arguments=edit(path, "x = 2")["arguments"])
        output = [call_item("execute_bash", json.dumps({"command": f"printf 'x = 2\\n' > {path}"}))]
        return compare(expected, {"output": output}, {"input": [UPLOADED, *shown]}).reward

    assert reward("/testbed/a.py") == 1.0
    assert reward("/q/a.py") == 0.0
