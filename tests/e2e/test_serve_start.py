"""Claims about starting: what can't be served is said, with its exit code, and nothing is left running."""

import signal
import socket
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from tests.support.processes import running

from paddock.cli import main

Attempt = Callable[..., tuple[int, str]]

CUE = "cue: {resources_servers: {'paddock.testing.servers:CueServer': {%s}}}\n"
MODEL = "model: {models_servers: {'paddock.testing.servers:EchoModel': {}}}\n"
AGENT = """
agent:
  agents:
    single_step:
      resources_server: {type: resources_servers, name: cue}
      model_server: {type: models_servers, name: modle}
"""


class Mistake(NamedTuple):
    text: str
    arguments: list[str]
    message: str


MISTAKES = {
    "file": Mistake("", ["nowhere.yaml"], "no file `nowhere.yaml`"),
    "nothing": Mistake("serve: {}\n", [], "the config has no server"),
    "plugin": Mistake("", ["pivott"], "`pivott` is neither a config file nor a plugin"),
    "instance": Mistake(CUE % "", ["--server", "cui"], "no instance `cui`; nearest: `cue`"),
    "variable": Mistake(
        CUE % "secret: '${oc.env:SURELY_NOT_SET}'", [], "environment variable SURELY_NOT_SET is not set"
    ),
    "missing value": Mistake(CUE % "secret: '???'", [], "is mandatory (`???`) and nothing sets it"),
    "reference": Mistake(CUE % "" + MODEL + AGENT, [], "no instance `modle`; nearest: `model`"),
    "module": Mistake("x: {agents: {'no_such_pkg.mod:Agent': {}}}", [], "there is no module `no_such_pkg`"),
    "import": Mistake("x: {agents: {'broken_plugin:Agent': {}}}", [], "needs the package `no_such_dependency`"),
    "class": Mistake("x: {agents: {'paddock.testing.servers:Nobody': {}}}", [], "is no class of agents"),
    "field": Mistake(CUE % "sekret: x", [], "nearest: `secret`"),
    "serve block": Mistake("serve: {max_restart: 1}\n" + CUE % "", [], "nearest: `max_restarts`"),
    "open host": Mistake(CUE % "", ["--host", "0.0.0.0"], "cue: host 0.0.0.0 is reachable from other machines"),
    "host": Mistake(CUE % "host: 203.0.113.1", ["--token-file", "token"], "cue: can't listen on 203.0.113.1:0"),
    "token file": Mistake(CUE % "", ["--token-file", "nowhere"], "token file nowhere: No such file"),
    "empty token": Mistake(CUE % "", ["--token-file", "empty"], "token file empty: is empty"),
}


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Attempt:
    """The exit code and stderr of `paddock serve` over a config of that text, in a folder with some odd files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PADDOCK_TOKEN", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_plugin.py").write_text("import no_such_dependency\n")
    (tmp_path / "token").write_text("t")
    (tmp_path / "empty").write_text("\n")

    def _attempt(text: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "c.yaml").write_text(text)
        code = main(["serve", *(["c.yaml"] if text else []), *arguments])
        printed = capfd.readouterr()
        assert printed.out == ""
        return code, printed.err

    return _attempt


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_ends_with_code_2_and_its_message_before_anything_serves(case: str, attempt: Attempt) -> None:
    mistake = MISTAKES[case]
    code, err = attempt(mistake.text, *mistake.arguments)
    assert mistake.message in err
    assert err.startswith("paddock serve: ")
    assert code == 2


@pytest.mark.parametrize("flags", [[], ["--isolate"]], ids=["one-process", "isolated"])
def test_a_taken_port_is_a_mistake_that_names_it(flags: list[str], attempt: Attempt) -> None:
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        code, err = attempt(CUE % f"port: {port}", *flags)
    assert (code, err) == (2, f"paddock serve: cue: can't listen on 127.0.0.1:{port}: Address already in use\n")


@pytest.mark.slow
@pytest.mark.cli
@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ("start: fail", 1, "cue: can't start: ValueError: cued to fail"),
        ("start: die", 1, "cue: its process ended with exit code 7 while starting"),
        ("start: hang", 1, "not ready within 1 s: cue\n"),
        ("sekret: x", 2, "nearest: `secret`"),
    ],
)
def test_a_child_that_can_not_start_says_why_through_its_parent(
    fields: str, code: int, message: str, attempt: Attempt
) -> None:
    before = set(psutil.Process().children(recursive=True))  # zygotes of other tests go on
    timeout_s = 1 if "hang" in fields else 60
    text = f"serve: {{start_timeout_s: {timeout_s}, stop_timeout_s: 0.5}}\n" + CUE % fields
    found, err = attempt(text, "--isolate")
    assert message in err
    assert found == code
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("start: fail", "paddock serve: cue: can't start: ValueError: cued to fail"),
        ("start: hang", "paddock serve: cue: did not start in time"),
    ],
)
def test_a_server_that_can_not_start_here_ends_with_code_1(fields: str, message: str, attempt: Attempt) -> None:
    timeout_s = 0.3 if "hang" in fields else 60
    code, err = attempt(f"serve: {{start_timeout_s: {timeout_s}}}\n" + MODEL + CUE % fields)
    assert (code, err.strip()) == (1, message)


@pytest.mark.slow
@pytest.mark.cli
def test_a_signal_during_a_start_that_hangs_ends_it(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CUE % "start: hang")
    with running("paddock", "serve", config, "--isolate") as command:
        deadline = time.monotonic() + 60
        while not command.family() and time.monotonic() < deadline:
            time.sleep(0.05)
        command.send(signal.SIGINT)
        assert command.code() == 0
    assert command.out == []


def test_a_dry_run_names_the_servers_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CUE % "start: fail, port: 4321" + MODEL)
    assert main(["serve", str(config), "--dry-run"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["cue", "resources_servers/paddock.testing.servers:CueServer", "http://127.0.0.1:4321"],
        ["model", "models_servers/paddock.testing.servers:EchoModel"],
    ]


def test_what_was_read_other_than_written_is_noted_once_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("p: {resources_servers: {swe_pivot: {entrypoint: app.py}}}\n")
    assert main(["serve", str(config), "--dry-run"]) == 0
    printed = capsys.readouterr()
    notes = printed.err.splitlines()
    assert all(line.startswith("note: ") for line in notes)
    assert sum("`p.resources_servers.swe_pivot.entrypoint` ignored" in line for line in notes) == 1
    assert printed.out.split() == ["p", "resources_servers/pivot"]
    assert main(["serve", str(config), "--dry-run", "--strict"]) == 2
    assert "--strict refuses it" in capsys.readouterr().err


def test_a_plugin_is_served_alone_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "pivot", "pivot.resources_servers.pivot.comparator=compat", "--dry-run"]) == 0
    assert capsys.readouterr().out.split() == ["pivot", "resources_servers/pivot"]


def test_only_the_servers_asked_for_and_those_they_need_are_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(CUE % "" + MODEL + AGENT.replace("modle", "model") + "other: {resources_servers: {pivot: {}}}\n")
    assert main(["serve", str(config), "--server", "agent", "--dry-run"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["agent", "cue", "model"]
