"""Claims about runs as tables, and about a rollout in a notebook."""

from pathlib import Path

import pytest
from tests.viewer.conftest import HOSTILE

import paddock
from paddock.errors import ConfigError
from paddock.viewer import read_entries


def test_rollouts_are_those_of_the_run_and_failures_have_no_reward(seen_run: Path) -> None:
    table = paddock.runs(seen_run).rollouts
    listed = [(entry.result.group_id, entry.result.member, entry.result.reward) for entry in read_entries(seen_run)]
    assert [(one["group"], one["member"], one["reward"]) for one in table] == listed
    assert len({tuple(one) for one in table}) == 1, "each record has each key"
    failed = [one for one in table if one["outcome"] == "infra"]
    assert [(one["reward"], one["failure"], one["metric/resolved"]) for one in failed] == [(None, "scripted", None)] * 2
    assert {one["label/repo"] for one in table if one["group"] == 0} == {"calc/code"}
    assert sum(one["reward"] for one in table if one["reward"] is not None) == 2.0


def test_turns_are_the_calls_of_the_model(seen_run: Path) -> None:
    turns = [one for one in paddock.runs(seen_run).turns if (one["group"], one["member"]) == (0, 0)]
    assert [one["tools"] for one in turns] == [["exec", "exec"], ["exec", "str_replace_editor"], []]
    assert [one["turn"] for one in turns] == [0, 1, 2]
    assert [one["parent"] for one in turns] == [None] * 3, "an engine without ids continues nothing"


def test_failures_are_every_attempt(seen_run: Path) -> None:
    table = paddock.runs(seen_run).failures
    assert {(one["group_id"], one["kind"], one["owner"]) for one in table} == {(3, "scripted", "infra")}


def test_a_pattern_means_the_runs_that_it_matches(seen_run: Path, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(seen_run)
    (tmp_path / "two").symlink_to(seen_run)
    (tmp_path / "none").mkdir()
    found = paddock.runs(tmp_path / "*")
    assert [path.name for path in found.paths] == ["one", "two"]
    assert len(found.rollouts) == 16
    with pytest.raises(ConfigError, match="matches no run"):
        paddock.runs(tmp_path / "no*")
    with pytest.raises(ConfigError, match="nowhere"):
        _ = paddock.runs(tmp_path / "nowhere").rollouts


def test_a_table_says_what_it_needs_for_pandas(seen_run: Path) -> None:
    table = paddock.runs(seen_run).rollouts
    try:
        import pandas
    except ImportError:
        with pytest.raises(ConfigError, match="pip install pandas"):
            table.to_pandas()
    else:
        assert isinstance(table.to_pandas(), pandas.DataFrame)


def test_a_notebook_shows_a_rollout_as_text_alone(seen_run: Path) -> None:
    shown = paddock.show(seen_run, "1-0")
    html = shown._repr_html_()
    assert html.startswith("<iframe sandbox srcdoc=")
    assert html.count('"') == 6, "nothing that was said ends the attribute"
    assert HOSTILE not in html
    assert "evil__evil-1" in repr(shown)
    assert "<script" not in html
    assert "<th>" in paddock.runs(seen_run).rollouts._repr_html_()
    with pytest.raises(ConfigError, match="no rollout"):
        paddock.show(seen_run, 99)
