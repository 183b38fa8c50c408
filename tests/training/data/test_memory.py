"""Claims about memory: files are longer than what is held of them."""

import tracemalloc
from pathlib import Path

import orjson
import pytest

from paddock.cli import main
from paddock.training.data.blends import SOURCES
from paddock.training.data.placeholders import PLACEHOLDER_KEY

N_ROWS, TEXT = 300, "word " * 20_000
LIMIT_BYTES = 8 << 20
"""Of a file of 30 MB: buffers of a megabyte and some rows of 100 kB."""


@pytest.mark.slow
def test_a_long_file_is_held_a_row_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marker = next(marker for marker, name in SOURCES.items() if name == "skywork")
    call = {"type": "function_call", "name": "bash", "arguments": "{}"}
    with Path("in.jsonl").open("wb") as rows, Path("source.jsonl").open("wb") as source:
        for index in range(N_ROWS):
            row = {
                "dataset": marker,
                "expected_action": call,
                PLACEHOLDER_KEY: {"row": index, "question_template": "{question}"},
            }
            rows.write(orjson.dumps(row) + b"\n")
            answer = {"prompt": [{"content": f"{index} {TEXT}"}], "reward_model": {"ground_truth": "1"}}
            source.write(orjson.dumps(answer) + b"\n")
    commands = [
        ["fill", "in.jsonl", "--source", "skywork=source.jsonl", "--out", "filled"],
        ["split", "filled/in.jsonl", "--out", "split"],
        ["check", "split/in/train-split.jsonl", "--server", "pivot"],
    ]
    main(["data", "check", "source.jsonl", "--server", "pivot"])  # imports are made
    for command in commands:
        tracemalloc.start()
        assert main(["data", *command]) == 0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < LIMIT_BYTES, command
    assert Path("filled/in.jsonl").stat().st_size > 3 * LIMIT_BYTES
