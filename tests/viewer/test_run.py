"""Claims about a run as a whole: its list, and that its summary tells harnesses and repositories apart."""

from pathlib import Path

import pytest

from paddock.cli import main
from paddock.collect import read_summary
from paddock.viewer import read_entries


def test_a_list_has_every_rollout_with_its_harness_and_reason(
    seen_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(seen_run)]) == 0
    _, *lines, count = capsys.readouterr().out.splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in lines}
    assert cells["0-0"] == ["1", "completed", "3", "even", "worker", "calc__calc-1", "resolved"]
    assert cells["1-1"] == ["0", "truncated", "1", "odd", "worker", "evil__evil-1", "tests_fail"]
    assert (
        " ".join(cells["3-0"])
        == "- infra 0 scripted_world:Worker worker calc__calc-3 scripted: the grader's <machine> died"
    )
    assert count == "8 rollouts: 2 with a reward, 4 with reward 0, 2 without one"


def test_a_failure_comes_once_by_its_last_attempt(seen_run: Path) -> None:
    failed = [entry for entry in read_entries(seen_run) if entry.failed is not None]
    assert sorted(entry.member_id for entry in failed) == ["3-0", "3-1"]
    assert all(entry.result.reward is None for entry in failed)


def test_a_summary_tells_variants_and_repositories_apart_and_counts_no_failure(seen_run: Path) -> None:
    (run,) = read_summary(seen_run)
    assert run["outcomes"] == {"completed": 3, "truncated": 3, "infra": 2}
    assert run["reasons"] == {"resolved": 2, "tests_fail": 2, "no_patch": 2}
    assert run["ended"] == {"finished": 3, "turn_limit": 3}
    assert run["malformed_per_rollout"] == {"bad_json": 1.0}
    assert {repo: part["pass_rate"] for repo, part in run["labels"]["repo"].items()} == {
        "calc/code": 0.5,
        "evil/code": 0.0,
    }
    assert {name: part["turns"] for name, part in run["variants"].items()} == {"even": 7 / 3, "odd": 4 / 3}
    (found,) = run["comparisons"]
    assert (found["first"], found["second"], found["n_rows"], found["difference"]) == (
        "worker/even",
        "worker/odd",
        3,
        0,
    )
