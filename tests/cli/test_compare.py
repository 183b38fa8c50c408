"""Claims about `paddock compare`: two real runs, parts of one, and mistakes."""

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.cli.scripted_runs import collect_run

from paddock.cli import main
from paddock.collect.folder import RUN


def collect_rows(folder: Path, wrong: set[int], leaks: set[int], rows: range, **settings: Any) -> Path:
    """A run of which some rows are wrong and some have no verdict."""
    folder.mkdir()
    return collect_run(
        folder,
        [
            {
                "uuid": f"name-{index}",
                "answer": "no" if index in wrong else "yes",
                **({"grade": "leak"} if index in leaks else {}),
            }
            for index in rows
        ],
        **settings,
    )


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Rows 0 to 8 and 2 to 10; of the common ones, 2 to 4 are wrong before, 8 after, and 5 has no verdict before."""
    folder = tmp_path_factory.mktemp("compared")
    before = collect_rows(folder / "before", {2, 3, 4}, {5}, range(9))
    return before, collect_rows(folder / "after", {8}, set(), range(2, 11))


def test_two_runs_are_paired_by_name(
    two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = map(str, two_runs)
    assert main(["compare", before, after, "--json", str(tmp_path / "c.json")]) == 0
    text = capsys.readouterr().out
    written = orjson.loads((tmp_path / "c.json").read_bytes())
    (found,) = written["comparisons"]
    assert written["arms"] == [before, after]
    # Common with a verdict: 2, 3, 4, 6, 7, 8.
    assert (found["first"], found["second"], found["n_rows"]) == (after, before, 6)
    assert (found["first_rate"], found["second_rate"]) == (pytest.approx(5 / 6), 0.5)
    assert found["p_value"] == pytest.approx(2 * (1 + 4) / 2**4)
    assert (found["better"], found["worse"]) == (["name-2", "name-3", "name-4"], ["name-8"])
    assert (found["only_first"], found["only_second"]) == (["name-10", "name-5", "name-9"], ["name-0", "name-1"])
    assert f"{before}: 8 rows, 2 rollouts without a verdict, pass@1 0.625  pass@2 0.625" in text
    assert "better on 3, worse on 1, p 0.62" in text
    assert f"  better under {after}: name-2, name-3, name-4\n  worse under {after}: name-8\n" in text


def test_costs_are_compared_where_all_have_one(
    two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = {"policy": {"input": 2.0, "output": 10.0}}
    priced = str(collect_rows(tmp_path / "priced", {2}, set(), range(4), usd_per_million_tokens=prices))
    assert main(["compare", priced, str(two_runs[1])]) == 0
    one, other, *_ = capsys.readouterr().out.splitlines()
    # 10 tokens in and 2 out, both times.
    assert ", 4e-05 USD each, pass@1" in one
    assert "USD" not in other


def test_the_tables_are_written_for_papers_and_pages(
    two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = tmp_path / "a|b_<script>"
    shutil.copytree(two_runs[0], hostile)
    files = {form: tmp_path / f"c.{form}" for form in ("html", "markdown", "latex")}
    options = [word for form, file in files.items() for word in (f"--{form}", str(file))]
    assert main(["compare", str(hostile), str(two_runs[1]), *options]) == 0
    page, pipes, tabular = (files[form].read_text() for form in files)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "name-10\nname-5\nname-9" in page
    rows = [line for line in pipes.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows[:4]}) == 1, "a name breaks no column"
    assert "\\<script\\>" in pipes
    assert "b\\_\\textless{}script\\textgreater{}" in tabular
    assert tabular.count(r"\begin{tabular}") == tabular.count(r"\end{tabular}") == 3
    assert main(["compare", *map(str, two_runs), "--html", str(tmp_path / "none" / "c.html")]) == 2
    assert "can't be written" in capsys.readouterr().err


def test_a_part_of_a_run_is_named_after_a_colon(
    two_runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = two_runs
    assert main(["compare", f"{before}:agent", str(after)]) == 0
    assert "on 6 rows" in capsys.readouterr().out
    assert main(["compare", f"{before}:agnt", str(after)]) == 2
    assert "no agent or variant `agnt`; it has agent" in capsys.readouterr().err


def test_mistakes_are_named(two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = str(two_runs[0])
    assert main(["compare", before, str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err
    (tmp_path / "rollouts.jsonl").touch()
    assert main(["compare", before, str(tmp_path)]) == 2
    assert "no rollout has a verdict" in capsys.readouterr().err
    (tmp_path / "rollouts.jsonl").write_bytes(b"{broken}\n")
    assert main(["compare", before, str(tmp_path)]) == 2
    assert "line 1" in capsys.readouterr().err
    apart = collect_rows(tmp_path / "apart", set(), set(), range(20, 22))
    assert main(["compare", before, str(apart)]) == 2
    assert "have no row in common" in capsys.readouterr().err


def test_rewards_that_are_relative_are_not_compared(
    two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(two_runs[0], tmp_path / "relative"))
    identity = orjson.loads((run / RUN).read_bytes())
    identity["agents"]["agent"]["relative"] = True
    (run / RUN).write_bytes(orjson.dumps(identity))
    assert main(["compare", str(two_runs[1]), str(run)]) == 2
    assert "its rewards are relative to other rollouts" in capsys.readouterr().err
