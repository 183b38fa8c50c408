"""Claims about signals: whichever comes whenever, a program ends in order or at once, and never with a trace."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import orjson
import psutil
import pytest
from tests.sampling import few
from tests.support.processes import CommandProcess, running

pytestmark = [pytest.mark.cli, pytest.mark.timeout(90)]

EVAL = """
environment: {{resources_servers: {{paddock.conformance.scripted:ScriptedEnvironment: {{}}}}}}
policy: {{models_servers: {{paddock.conformance.scripted:ScriptedModel: {{delay_s: {delay_s}}}}}}}
agent:
  agents:
    single_step:
      resources_server: {{type: resources_servers, name: environment}}
      model_server: {{type: models_servers, name: policy}}
      datasets: [{{name: few, type: example, jsonl_fpath: {rows}}}]
"""
SERVE = "cue: {resources_servers: {paddock.testing.servers:CueServer: {}}}\n"
AFTER = """
import atexit, sys
from paddock.cli import main
atexit.register(lambda: (print("leaving", flush=True), sys.stdin.readline()))
sys.argv = ["paddock", "--version"]
sys.exit(main())
"""
WAIT_S = 60.0


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Of a run whose rollouts take longer than any test."""
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b'{"responses_create_params": {"input": "q"}, "answer": "yes"}\n' * 8)
    config = tmp_path / "case.yaml"
    config.write_text(EVAL.format(rows=rows, delay_s=300))
    return ["eval", str(config), "--out", str(tmp_path / "run"), "--progress-every-s", "0.05"]


@pytest.fixture
def short(tmp_path: Path) -> list[str]:
    """Of a run that is soon done."""
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b'{"responses_create_params": {"input": "q"}, "answer": "yes"}\n')
    config = tmp_path / "case.yaml"
    config.write_text(EVAL.format(rows=rows, delay_s=0))
    return ["eval", str(config), "--out", str(tmp_path / "run")]


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    path = tmp_path / "servers.yaml"
    path.write_text(SERVE)
    return path


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def catches(pid: int, number: signal.Signals) -> bool:
    (caught,) = [
        line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt")
    ]
    return bool(int(caught, 16) >> (number - 1) & 1)


def no_trace(command: CommandProcess) -> bool:
    return not any(word in command.output() for word in ("Traceback", "Exception ignored", "never awaited"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_still_starting_ends_it_without_a_word(
    arguments: list[str], number: signal.Signals
) -> None:
    with running("paddock", *arguments) as command:
        eventually(lambda: catches(command.pid, signal.SIGHUP))
        command.send(number)
        assert command.code() == 130
        assert command.err == []


@pytest.mark.slow
def test_a_second_interrupt_ends_it_at_once_without_a_trace(arguments: list[str]) -> None:
    with running("paddock", *arguments) as command:
        command.line("0/8 ")
        for _ in range(20):
            command.send(signal.SIGINT)
            time.sleep(0.01)
        assert command.code() == 130
        assert no_trace(command)


@pytest.mark.slow
@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_servers_end_in_order_when_their_terminal_is_gone(servers: Path, isolate: bool) -> None:
    with running("paddock", "serve", servers, *(["--isolate"] if isolate else [])) as command:
        command.line("http://")
        command.send(signal.SIGHUP)
        assert command.code() == 0
        assert command.err == []


@pytest.mark.slow
def test_what_began_with_nohup_outlives_its_terminal(servers: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with running("paddock", "serve", servers) as command:
            command.line("http://")
            command.send(signal.SIGHUP)
            assert not catches(command.pid, signal.SIGHUP)
            command.send(signal.SIGTERM)
            assert command.code() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_collection_whose_terminal_closes_writes_its_summary(arguments: list[str], tmp_path: Path) -> None:
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "paddock", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    try:
        with closing(os.fdopen(master, "rb", buffering=0)) as terminal:
            said = b""
            while b"\x1b[?25l" not in said:  # the bar hides the cursor
                said += terminal.read(4096)
        assert process.wait(WAIT_S) == 130
    finally:
        process.kill()
        process.wait()
    assert orjson.loads((tmp_path / "run" / "summary.json").read_bytes()) == []


def test_no_signal_becomes_the_exit_code_once_that_is_known() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", AFTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        while process.stdout.readline() != "leaving\n":
            assert process.poll() is None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        out, err = process.communicate("\n", timeout=WAIT_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", few([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_no_signal_becomes_the_exit_code_of_a_collection_once_it_is_told(
    short: list[str], number: signal.Signals
) -> None:
    with running("paddock", *short) as command:
        command.line("summary.json")
        with suppress(ProcessLookupError):
            for _ in range(20):
                command.send(number)
        assert command.code() == 0
        assert no_trace(command)


@pytest.mark.slow
def test_an_interrupt_of_one_server_alone_is_its_end_without_a_trace(servers: Path) -> None:
    with running("paddock", "serve", servers, "--isolate", "serve.restart_wait_s=0.01") as command:
        command.line("http://")
        (child,) = command.family()
        os.kill(child.pid, signal.SIGINT)
        command.line("its process was killed by SIGINT")
        assert no_trace(command)
        assert psutil.pid_exists(command.pid)


@pytest.mark.slow
def test_an_interrupt_of_a_server_that_is_still_starting_is_its_end_without_a_trace(servers: Path) -> None:
    with running("paddock", "serve", servers, "--isolate") as command:
        eventually(lambda: bool(command.family()))
        (child,) = command.family()
        eventually(lambda: catches(child.pid, signal.SIGINT) or bool(command.out))
        os.kill(child.pid, signal.SIGINT)
        command.line("its process was killed by SIGINT")
        assert no_trace(command)
