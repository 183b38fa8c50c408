"""Claims about naming what is under test, and about `paddock check`."""

import signal
from pathlib import Path

import orjson
import pytest
from tests.support.processes import running

from paddock.cli import main
from paddock.conformance import find_target, kind_of, suite_for
from paddock.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("resources_server", "resources_servers"),
        ("resources_servers", "resources_servers"),
        ("agent", "agents"),
        ("agents", "agents"),
        ("models_server", "models_servers"),
        ("model_server", "models_servers"),
        ("models_servers", "models_servers"),
    ],
)
def test_a_kind_may_be_said_in_singular_and_plural(word: str, kind: str) -> None:
    assert kind_of(word) == kind
    assert suite_for(word) == suite_for(kind)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("resource_server:pivot", "nearest: `resources_server`"),
        ("resources_server", "needs KIND:NAME"),
        ("resources_server:pivto", "pivot"),
        ("agent:paddock.no_such:Agent", "no_such"),
    ],
)
def test_a_wrong_name_is_refused_with_what_there_is(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_target(words)


def test_every_suite_has_its_behaviours_under_different_names() -> None:
    for kind, least in {"resources_server": 12, "agent": 10, "models_server": 12}.items():
        names = [behaviour.name for behaviour in suite_for(kind)]
        assert len(set(names)) == len(names) >= least


def test_a_plugin_brings_its_own_block_and_rows() -> None:
    target = find_target("resources_server:pivot")
    assert target.block == {"comparator": "semantic"}
    assert len(target.rows) >= 50


def test_the_command_says_each_behaviour_and_exits_1_for_a_broken_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"responses_create_params": {"input": "q"}, "answer": "the known answer"}))
    plugin = "resources_server:paddock.conformance.scripted:ScriptedEnvironment"
    assert main(["check", plugin, "--rows", str(rows), "--only", "score"]) == 0
    shown = capsys.readouterr().out
    assert "passed  known-good turns score 1" in shown
    assert "2 behaviours, 0 broken" in shown
    config = tmp_path / "broken.yaml"
    config.write_text(
        orjson.dumps({"e": {"resources_servers": {plugin.partition(":")[2]: {"grade": "raise"}}}}).decode()
    )
    assert main(["check", plugin, str(config), "--rows", str(rows), "--only", "score"]) == 1
    assert "failed  known-good turns score 1: VerifierError" in capsys.readouterr().out
    assert main(["check", "agnet:single_step"]) == 2


def test_an_unreadable_row_is_a_mistake_named_by_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"{}\n")
    assert main(["check", "resources_server:pivot", "--rows", str(rows)]) == 2
    assert "rows.jsonl:1: responses_create_params: missing" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.cli
def test_an_interrupted_check_exits_130_without_a_traceback(tmp_path: Path) -> None:
    plugin = "paddock.conformance.scripted:ScriptedEnvironment"
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(orjson.dumps({"responses_create_params": {"input": "q"}, "answer": "the known answer"}))
    config = tmp_path / "hanging.yaml"
    config.write_text(orjson.dumps({"e": {"resources_servers": {plugin: {"grade": "hang"}}}}).decode())
    with running("paddock", "check", f"resources_server:{plugin}", str(config), "--rows", str(rows)) as command:
        command.line("it has example rows")
        command.send(signal.SIGINT)
        assert command.code() == 130
        assert command.err == []


def test_a_filter_that_leaves_no_behaviour_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "agent:single_step", "--only", "nonsense"]) == 2
    assert "'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["harness:nul"], "null"),
        (["harness"], "needs KIND:NAME"),
        (["harness:script"], "needs `commands` or `field`"),
        (["harness:null", "--rows", "x.jsonl"], "takes no rows"),
    ],
)
def test_a_harness_that_is_named_wrongly_is_an_error(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words]) == 2
    assert told in capsys.readouterr().err
