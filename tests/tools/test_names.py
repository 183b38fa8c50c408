"""Names of tools: kinds, spellings and the defaults that synonyms stand for."""

import pytest

from paddock.tools import NAMES, SYNONYMS, canonical, fold, kind_of, stand_ins

KINDS = {
    "shell": "execute_bash bash shell terminal shell_command exec_command write_stdin run_shell_command Bash",
    "edit": "str_replace_editor file_editor edit edit_file write write_file apply_patch MultiEdit Write code_editor",
    "read": "read read_file view_file cat_file view Read file_view read_file_content",
    "search": "grep glob grep_files search_text find_files Glob code_search",
    "list": "list list_dir ls LS list_directory show_dir",
    "finish": "finish submit Finish",
    "think": "think Think",
    "plan": "task_tracker update_plan todowrite todo_write TodoWrite todo_read read_todos edit_plan",
    "ask": "question ask_user request_user_input AskUserQuestion",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in KINDS.items() for name in names.split()])
def test_a_name_has_the_kind_of_what_its_tool_does(kind: str, name: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    "name", ["browser", "execute_ipython_cell", "get_weather", "", "view_image", "exec", "bash ", "x" * 5000]
)
def test_a_name_that_no_table_has_is_of_no_kind(name: str) -> None:
    assert kind_of(name) is None


def test_no_name_has_two_forms() -> None:
    names = [name for group in NAMES.values() for name in group.split()]
    assert len(names) == len(set(names))


def test_every_name_is_written_folded() -> None:
    names = [name for group in NAMES.values() for name in group.split()]
    assert [name for name in names if fold(name) != name] == []


@pytest.mark.parametrize("default", SYNONYMS)
def test_synonyms_are_of_the_kind_of_their_default_in_every_spelling(default: str) -> None:
    for other in SYNONYMS[default].split():
        pascal = "".join(part.capitalize() for part in other.split("_"))
        camel = pascal[0].lower() + pascal[1:]
        assert kind_of(other) == kind_of(pascal) == kind_of(camel) == kind_of(default)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("run_bash", "execute_bash"),
        ("RunBash", "execute_bash"),
        ("shell", "execute_bash"),
        ("terminal", "bash"),
        ("exec_command", "shell_command"),
        ("read_file", "read_file"),
        ("modify", "edit"),
        ("edit_file", "edit_file"),
        ("cat_file", "read"),
        ("browse_web", "browser"),
        ("modify_plan", "update_plan"),
        ("ExecuteBash", "execute_bash"),
        ("get_weather", "get_weather"),
        ("GetWeather", "GetWeather"),
    ],
)
def test_a_synonym_stands_for_its_default(name: str, default: str) -> None:
    assert canonical(name) == default


@pytest.mark.parametrize(
    ("name", "among", "real"),
    [
        ("shell", ["bash", "read"], "bash"),
        ("shell", ["execute_bash", "str_replace_editor"], "execute_bash"),
        ("edit_file", ["edit", "write"], "edit"),
        ("edit_file", ["edit_file", "edit"], "edit_file"),
        ("view_file", ["read_file", "list_dir"], "read_file"),
        ("view_file", ["read", "list_dir"], "read"),
        ("TodoWrite", ["todo_write"], "todo_write"),
        ("file_editor", ["file_editor"], "file_editor"),
        ("get_weather", ["bash"], "get_weather"),
    ],
)
def test_an_ambiguous_synonym_stands_for_what_the_harness_has(name: str, among: list[str], real: str) -> None:
    assert canonical(name, among) == real


@pytest.mark.parametrize(
    ("name", "among", "shown"),
    [
        ("execute_bash", ["execute_bash"], ["execute_bash", "run_bash", "bash_exec", "shell_run", "shell"]),
        ("bash", ["bash", "execute_bash"], ["bash", "terminal"]),
        ("edit", ["edit", "edit_file"], ["edit", "modify"]),
        ("finish", ["finish", "bash"], ["finish"]),
        ("get_weather", ["get_weather"], ["get_weather"]),
    ],
)
def test_a_tool_may_be_shown_as_what_means_it_and_no_other(name: str, among: list[str], shown: list[str]) -> None:
    assert stand_ins(name, among) == shown


def test_in_pascal_case_a_tool_may_be_shown_as_the_same_names() -> None:
    assert stand_ins("update_plan", ["update_plan"], camel=True) == ["UpdatePlan", "ModifyPlan", "EditPlan"]
    assert stand_ins("mcp__a__b", ["mcp__a__b"], camel=True) == ["mcp__a__b"]
