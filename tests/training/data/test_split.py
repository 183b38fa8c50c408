"""Claims about `paddock data split`."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.cli import main
from paddock.training.data.split import split_last


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([b'{"a": 1}', b" ", b'{"b":  2.0}', b""]), min_size=1),
    st.integers(1, 12),
    st.booleans(),
)
def test_both_files_are_the_rows_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], last: int, ends: bool
) -> None:
    rows = [line for line in lines if line.strip()]
    if not rows:
        return
    folder = tmp_path_factory.mktemp("split")
    source = folder / "rows.jsonl"
    source.write_bytes(b"\n".join(lines) + b"\n" * ends)
    done = split_last(source, folder, last=last)
    train = done.train.read_bytes().splitlines()
    validation = done.validation.read_bytes().splitlines() if done.validation else []
    assert train + validation == rows
    assert len(validation) == (last if len(rows) > last else 0)
    assert (done.n_train, done.n_validation) == (len(train), len(validation))


def test_a_folder_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, count in (("swe1", 150), ("rlhf", 100)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"i": {i}}}\n' for i in range(count)))
    assert main(["data", "split", str(tmp_path), "--out", str(tmp_path / "data")]) == 0
    assert (tmp_path / "data/swe1/val-split.jsonl").read_text().startswith('{"i": 50}\n')
    assert not (tmp_path / "data/rlhf/val-split.jsonl").exists()
    assert "50 in train-split.jsonl, 100 in val-split.jsonl" in capsys.readouterr().out


def test_a_validation_file_of_before_does_not_stay(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"i": 1}\n{"i": 2}\n')
    command = ["data", "split", str(source), "--out", str(tmp_path)]
    assert main([*command, "--last", "1"]) == 0
    assert (tmp_path / "a/val-split.jsonl").exists()
    assert main([*command, "--last", "2"]) == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["train-split.jsonl"]


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/rows.jsonl", "b/rows.jsonl", "empty.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if name == "empty.jsonl" else "{}\n")
    for words, named in (
        (["a/rows.jsonl", "b/rows.jsonl"], "two files are named rows.jsonl"),
        (["empty.jsonl"], "has no rows"),
        (["a", "--last", "0"], "--last 0"),
        (["none.jsonl"], "none.jsonl"),
        (["rows.csv"], ".jsonl"),
    ):
        places = [str(tmp_path / word) if not word.startswith("-") and not word.isdigit() else word for word in words]
        assert main(["data", "split", *places, "--out", str(tmp_path / "out")]) == 2
        assert named in capsys.readouterr().err
