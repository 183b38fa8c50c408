"""Claims about what a wrong word gets: the nearest command, what a plugin's name means, what is missing."""

from pathlib import Path

import orjson
import pytest

from paddock.cli import main


def test_a_wrong_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evla", "x.yaml"]) == 2
    assert "no command `evla`; did you mean `eval`?" in capsys.readouterr().err
    assert main(["qqqqq"]) == 2
    assert "no command `qqqqq`; commands: init, serve, eval" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "0"], "--workers needs 1 or more"),
        (["--concurrency", "0"], "--concurrency needs 1 or more"),
        (["--cluster-label", "pool=a"], "--cluster-label needs --cluster"),
        (["--cluster", "somewhere"], "--cluster: "),
        (["--cluster", "auto", "--cluster-label", "pool"], "--cluster-label: "),
    ],
)
def test_what_is_wrong_with_the_flags_of_workers_is_said(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rollouts.jsonl").touch()
    assert main(["verify", str(tmp_path), "pivot", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_plugin_s_name_is_its_own_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["eval", "pivot", "--oracle", "--limit", "3", "--out", str(out), "--quiet"]) == 0
    assert "completed 3" in capsys.readouterr().out
    (run,) = orjson.loads((out / "summary.json").read_bytes())
    assert (run["environment"], run["harness"], run["agent"]) == ("pivot", "single_step", "pivot_agent")


def test_a_plugin_without_a_model_is_told_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "pivot", "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert "no instance `policy_model`" in said
    assert "name a model server too, as in `pivot openai`, or ask no model with --oracle" in said
    assert main(["eval", "pivto", "--dry-run"]) == 2
    assert "`pivto` is neither a config file nor a plugin" in capsys.readouterr().err
    assert main(["eval", "single_step", "--dry-run"]) == 2
    assert "`single_step` is a plugin (agents) that ships no config" in capsys.readouterr().err
