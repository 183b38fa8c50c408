"""Claims about `paddock show` as a command: lists, what a row may be called, mistakes."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from tests.cli.scripted_runs import collect_run

from paddock.cli import main
from paddock.http import rollout_from_wire


@pytest.fixture(scope="module")
def shown_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rows, two members each; row 2 is wrong, row 4 leaks."""
    folder = tmp_path_factory.mktemp("shown")
    changes: dict[int, dict[str, str]] = {2: {"answer": "no"}, 4: {"grade": "leak"}}
    return collect_run(
        folder, [{"answer": "yes", "uuid": f"name-{index}", **changes.get(index, {})} for index in range(6)]
    )


def show(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["show", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_run_is_a_line_per_rollout(shown_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, *lines, count = show(capsys, shown_run)
    assert head.split() == [*("row", "reward", "outcome", "turns", "harness", "agent", "instance", "reason")]
    cells = {line.split()[0]: line.split()[1:] for line in lines}
    assert cells["0-0"] == ["1", "completed", "1", "single_step", "agent", "name-0", "right"]
    assert cells["2-1"] == ["0", "completed", "1", "single_step", "agent", "name-2", "wrong"]
    assert cells["4-0"][:2] == ["-", "leak"]
    assert count == "12 rollouts: 8 with a reward, 2 with reward 0, 2 without one"


def test_a_list_and_a_page_are_in_the_order_of_rows_and_members(
    shown_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = [f"{group}-{member}" for group in range(6) for member in (0, 1)]
    # As they ended: the other way round.
    for name in ("rollouts.jsonl", "failures.jsonl"):
        stored = (shown_run / name).read_bytes().splitlines(keepends=True)
        (tmp_path / name).write_bytes(b"".join(reversed(stored)))
    _, *lines, _ = show(capsys, tmp_path)
    assert [line.split()[0] for line in lines] == order
    page = tmp_path / "page.html"
    show(capsys, shown_run, "--html", page)
    titles = re.findall(r"rollout (\S+) name-\S+ [^<]*", page.read_text())
    assert titles == order
    assert "rollout 0-0 name-0: reward 1, right (harness single_step, agent agent)" in page.read_text()


def test_failed_are_those_without_a_reward_or_with_reward_0(
    shown_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *lines, count = show(capsys, shown_run, "--failed")
    assert {line.split()[0] for line in lines} == {"2-0", "2-1", "4-0", "4-1"}
    assert count.startswith("4 rollouts: 0 with a reward")


def test_a_reward_below_0_is_a_failure_and_is_counted_apart(
    shown_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = [
        rollout_from_wire(orjson.loads(line)) for line in (shown_run / "rollouts.jsonl").read_bytes().splitlines()
    ]
    for nth, one in enumerate(stored):
        if one.verdict is not None and one.row.stamp.group_id == 3:
            bent = one.verdict.model_copy(update={"reward": -1.0, "reason": "tests_forged"})
            stored[nth] = one.model_copy(update={"verdict": bent})
    file = tmp_path / "bent.jsonl"
    file.write_bytes(b"".join(orjson.dumps(one.to_wire()) + b"\n" for one in stored))
    _, *lines, count = show(capsys, file, "--failed")
    cells = {line.split()[0]: line.split()[1] for line in lines}
    assert cells == {"2-0": "0", "2-1": "0", "3-0": "-1", "3-1": "-1"}
    assert count == "4 rollouts: 0 with a reward, 2 with reward 0, 2 below 0, 0 without one"


@pytest.mark.parametrize("wanted", ["3-1", "name-3"])
def test_a_row_has_three_names(shown_run: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    text = "\n".join(show(capsys, shown_run, wanted))
    assert "3-1" in text
    assert ("== turn 1" in text) is (wanted == "3-1")


def test_an_index_that_means_several_rollouts_lists_them(shown_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, *lines, _ = show(capsys, shown_run, "3")
    assert [line.split()[0] for line in lines] == ["3-0", "3-1"]


def test_the_index_and_the_rollouts_themselves_say_the_same(
    shown_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indexed = show(capsys, shown_run)
    for name in ("rollouts.jsonl", "failures.jsonl", "run.json"):
        (tmp_path / name).write_bytes((shown_run / name).read_bytes())
    assert show(capsys, tmp_path) == indexed
    assert not (tmp_path / "index.jsonl").exists()
    (tmp_path / "index.jsonl").write_bytes(b"".join((shown_run / "index.jsonl").read_bytes().splitlines(True)[:3]))
    assert show(capsys, tmp_path) == indexed
    (tmp_path / "index.jsonl").write_bytes(b"".join((shown_run / "index.jsonl").read_bytes().splitlines(True)[2:]))
    assert show(capsys, tmp_path) == indexed


def test_a_file_of_rollouts_is_shown_without_failures(shown_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, shown_run / "rollouts.jsonl")[-1].startswith("10 rollouts")


def test_a_torn_last_line_has_not_ended(shown_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = (shown_run / "rollouts.jsonl").read_bytes()
    (tmp_path / "rollouts.jsonl").write_bytes(data[:-20])
    assert show(capsys, tmp_path)[-1].startswith("9 rollouts")


def test_mistakes_are_exit_2_and_say_what_is_nearest(
    shown_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.jsonl").write_bytes(b'{"reward": 1}\n')
    mistakes: list[tuple[list[object], str]] = [
        ([shown_run, "nane-3"], "nearest: `name-"),
        ([shown_run, "77"], "it has rows 0 to 5"),
        ([shown_run, "3-2"], "no rollout `3-2`; row 3 has members 0 to 1"),
        ([shown_run.parent / "nope"], "nope: no such folder or file"),
        ([shown_run.parent], "there are no rollouts"),
        ([tmp_path / "broken.jsonl"], "broken.jsonl:1: no line of this file"),
        ([shown_run, "--diff", "3", "2-0"], "means 2 rollouts: 3-"),
        ([shown_run, "3", "--diff", "3-0", "2-0"], "no ROW"),
        ([shown_run, "--html", tmp_path / "no" / "page.html"], "can't be written"),
    ]
    for arguments, why in mistakes:
        assert main(["show", *map(str, arguments)]) == 2
        said = capsys.readouterr()
        assert why in said.err
        assert said.out == ""


@pytest.mark.slow
@pytest.mark.cli
def test_a_reader_that_has_seen_enough_is_no_error(shown_run: Path) -> None:
    command = f"{sys.executable} -m paddock show {shown_run} | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"row")


@pytest.mark.slow
@pytest.mark.cli
def test_a_terminal_gets_colours_and_a_pipe_gets_none(shown_run: Path) -> None:
    command = [sys.executable, "-m", "paddock", "show", str(shown_run), "2-0"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdout=theirs, env=environment) as shown:
        os.close(theirs)
        coloured = b"".join(_until_closed(ours))
    os.close(ours)
    assert shown.returncode == 0
    assert b"\x1b[31mrollout 2-0 name-2: reward 0, wrong (harness single_step, agent agent)\x1b[0m" in coloured
    assert b"\x1b" not in subprocess.run(command, capture_output=True, check=True).stdout


def _until_closed(terminal: int) -> Iterator[bytes]:
    # Linux says that nobody has the other end any more with an error.
    with suppress(OSError):
        while data := os.read(terminal, 65536):
            yield data
