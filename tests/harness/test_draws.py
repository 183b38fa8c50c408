"""What is drawn for a row: how often, by what, and what never changes it."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from paddock.harness.draws import draw, seed_of, shown_names
from paddock.tools import SYNONYMS, canonical, stand_ins
from paddock.types import JsonObject, Row, Stamp

TOOLBOXES = {
    "codeact": ["execute_bash", "str_replace_editor", "think", "finish", "task_tracker"],
    "opencode": ["bash", "read", "write", "edit", "glob", "grep", "list_dir", "todo_read", "todo_write", "finish"],
    "opencode 1": ["bash", "read", "glob", "grep", "edit", "write", "todowrite", "question", "apply_patch"],
    "codex": ["shell_command", "read_file", "list_dir", "grep_files", "apply_patch", "update_plan", "finish"],
    "codex 1": ["exec_command", "write_stdin", "update_plan", "request_user_input", "apply_patch", "view_image"],
    "openhands 1": ["terminal", "file_editor", "task_tracker", "finish", "think"],
    "two shells": ["bash", "shell", "terminal", "execute_bash"],
    "two editors": ["edit", "edit_file", "modify", "read", "read_file", "view", "list", "ls"],
    "strange": ["mcp__a__b", "getWeather", "X", "a_b_c", "Bash", "bash"],
    "all": list(SYNONYMS),
}
PINNED = [0, 2, 0, 1, 0, 0, 2, 0, 0, 1, 1, 2, 0, 1, 2, 1]
PINNED_NAMES = {
    "execute_bash": "shell",
    "str_replace_editor": "text_editor",
    "think": "think",
    "finish": "finish",
    "task_tracker": "task_tracker",
}


def a_row(group: int | None = None, *, task: JsonObject | None = None, **stamp: int) -> Row:
    return Row(
        responses_create_params={"input": []}, stamp=Stamp.model_validate({**stamp, "group_id": group}), task=task or {}
    )


def test_weights_are_met() -> None:
    weights = [1.0, 2.0, 5.0, 0.5]
    drawn = Counter(draw(weights, seed_of(a_row(group), 0)) for group in range(10_000))
    for index, weight in enumerate(weights):
        share = weight / sum(weights)
        # Five standard deviations; nothing here is random, so this holds for ever or never.
        assert abs(drawn[index] - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5


def test_one_option_is_always_drawn() -> None:
    assert {draw([0.3], seed_of(a_row(group), 0)) for group in range(50)} == {0}


def test_only_the_seed_the_group_and_the_epoch_count() -> None:
    row = a_row(7, member=0, attempt=0)
    same = [a_row(7, member=5, attempt=2), a_row(7, group_size=9), a_row(7, task={"instance_id": "x"})]
    other = [a_row(8), a_row(7, epoch=0), a_row(7, epoch=1)]
    assert {seed_of(one, 0) for one in same} == {seed_of(row, 0)}
    assert len({seed_of(row, 0), seed_of(row, 1), *(seed_of(one, 0) for one in other)}) == 5


def test_a_row_without_a_stamp_is_known_by_what_it_says() -> None:
    row = Row(responses_create_params={"input": [], "metadata": {"instance_id": "a"}}, task={"b": 1, "a": [1, "é"]})
    same = Row(
        responses_create_params={"metadata": {"instance_id": "a"}, "input": [], "temperature": 1.0, "top_p": 0.9},
        task={"a": [1, "é"], "b": 1, "_rowidx": 17},
    )
    other = row.model_copy(update={"responses_create_params": {"input": [], "metadata": {"instance_id": "b"}}})
    assert seed_of(row, 0) == seed_of(same, 0)
    assert seed_of(row, 0) != seed_of(other, 0) != seed_of(row.model_copy(update={"task": {"b": 2}}), 0)


def test_members_draw_for_themselves_where_that_is_asked_and_attempts_never_do() -> None:
    members = {seed_of(a_row(7, member=member), 0, per_rollout=True) for member in range(20)}
    assert len(members) == 20
    assert seed_of(a_row(7, member=3, attempt=2), 0, per_rollout=True) in members


def test_draws_are_those_of_every_process_and_version() -> None:
    # Fixed for ever: a run that is resumed, or another machine's, draws the same.
    seeds = [seed_of(a_row(group, epoch=1), 42) for group in range(16)]
    assert [draw([1, 1, 1], seed) for seed in seeds] == PINNED
    assert shown_names(TOOLBOXES["codeact"], seeds[0], diversify=True) == PINNED_NAMES


PROGRAM = """
from paddock.harness.draws import draw, seed_of, shown_names
from paddock.types import Row, Stamp
rows = [Row(responses_create_params={"input": "x"}, stamp=Stamp(group_id=g)) for g in range(20)]
rows += [Row(responses_create_params={"input": "x"}, task={"b": {"d": 1, "c": g}, "a": "\\u00e9"}) for g in range(20)]
for row in rows:
    seed = seed_of(row, 3)
    print(draw([1, 2, 3], seed), shown_names(["bash", "read", "grep"], seed, diversify=True, camel=True))
"""


@pytest.mark.slow
def test_other_processes_draw_the_same_whatever_their_hash_seed_time_zone_or_folder(tmp_path: Path) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone, "LC_ALL": "C"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed, zone, folder in [("1", "Asia/Tokyo", tmp_path), ("2", "America/Lima", Path("/"))]
    ]
    assert said[0] == said[1]
    assert said[0].count("\n") == 40


@pytest.mark.parametrize("camel", [False, True])
@pytest.mark.parametrize("toolbox", TOOLBOXES)
def test_every_name_that_may_be_shown_leads_back_to_its_tool_and_to_no_other(toolbox: str, camel: bool) -> None:
    real = TOOLBOXES[toolbox]
    shown = {name: stand_ins(name, real, camel=camel) for name in real}
    every = [one for names in shown.values() for one in names]
    assert len(every) == len(set(every))
    for name, names in shown.items():
        assert all(one == name or canonical(one, among=real) == name for one in names)
        assert name in names or camel


@pytest.mark.parametrize("toolbox", TOOLBOXES)
def test_drawn_names_are_those_that_may_be_shown_and_each_of_them_is_met(toolbox: str) -> None:
    real = TOOLBOXES[toolbox]
    drawn = [shown_names(real, seed_of(a_row(group), 0), diversify=True) for group in range(300)]
    assert all(list(names) == real and len(set(names.values())) == len(real) for names in drawn)
    for name in real:
        assert {names[name] for names in drawn} == set(stand_ins(name, real))


def test_tools_without_synonyms_keep_their_names() -> None:
    for group in range(50):
        names = shown_names(TOOLBOXES["codeact"], seed_of(a_row(group), 0), diversify=True)
        assert (names["finish"], names["think"]) == ("finish", "think")


def test_pascal_case_is_not_drawn() -> None:
    names = shown_names(["execute_bash", "finish", "todowrite"], seed_of(a_row(1), 0), camel=True)
    assert names == {"execute_bash": "ExecuteBash", "finish": "Finish", "todowrite": "Todowrite"}
    plain = shown_names(["execute_bash"], seed_of(a_row(1), 0))
    assert plain == {"execute_bash": "execute_bash"}


def test_a_name_that_pascal_case_would_hide_is_kept() -> None:
    assert shown_names(["mcp__a__b", "getWeather"], b"", camel=True)["mcp__a__b"] == "mcp__a__b"
