"""Rows of the training file that are validated on: those that NeMo-RL draws, and never trained on."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.training.grpo.test_train import TREE

from paddock.errors import ConfigError
from paddock.training.core.order import RowOrder
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.roles import GroupJob
from paddock.training.grpo.rollouts import RunRows
from paddock.training.grpo.row_split import split_rows
from paddock.training.grpo.run_lock import claim
from paddock.training.grpo.train import loop_settings, row_settings

N_ROWS = 20
SPLIT = {"split_validation_size": 0.23, "seed": 11}
DRAWN = [18, 2, 15, 9, 8]
"""`Dataset.from_dict({"row": range(20)}).train_test_split(test_size=0.23, seed=11)["test"]`, of datasets 5.2."""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps(_row(str(nth))) + b"\n\n" for nth in range(N_ROWS)))
    return path


def _row(text: str) -> dict[str, Any]:
    action = {"type": "message", "role": "assistant", "content": text}
    return {"responses_create_params": {"input": text}, "expected_action": action}


def read(rows: Path, *overrides: str, validation: str | None = None, **train: Any) -> RunConfig:
    data = {"train": {"data_path": str(rows), **SPLIT, **train}}
    held_out = {"validation": {"data_path": validation}} if validation is not None else {}
    path = rows.parent / "run.yaml"
    path.write_text(yaml.safe_dump({**TREE, "data": {**data, **held_out}}))
    return read_config(path, overrides)


def test_the_rows_are_those_of_nemo_rl() -> None:
    split = split_rows(N_ROWS, 0.23, 11)
    assert split.validation == DRAWN
    assert split.train == sorted(set(range(N_ROWS)) - set(DRAWN))
    assert split_rows(N_ROWS, 5, 11) == split, "a number of rows"
    assert split_rows(N_ROWS, 0.23, 8) != split
    assert split_rows(N_ROWS, 0, 11) == (range(N_ROWS), ())


@pytest.mark.parametrize("size", [20, 0.99])
def test_a_split_that_leaves_nothing_to_train_on_is_refused(size: float) -> None:
    with pytest.raises(ConfigError, match=r"is 20 of 20 rows, which leaves none to train on"):
        split_rows(N_ROWS, size, 0)


def test_what_is_validated_on_is_never_trained_on(rows: Path, tmp_path: Path) -> None:
    config = read(rows, "grpo.max_num_epochs=3", "grpo.val_period=1")
    loop = loop_settings(config, tmp_path)
    order = RowOrder(loop.pools, seed=1, shuffle=True, max_epochs=3)
    taken = [order.take() for _ in range(3 * (N_ROWS - len(DRAWN)))]
    assert order.take() is None
    trained = {place.row for place in taken if place is not None}
    assert trained == set(range(N_ROWS)) - set(DRAWN)
    sources = RunRows.read(config.environment, row_settings(config.config, tmp_path))
    held_out = [group.row for group in sources.validation(4)]
    assert [row and row.responses_create_params["input"] for row in held_out] == [str(index) for index in DRAWN]
    assert [row and row.responses_create_params["temperature"] for row in held_out] == [0.0] * len(DRAWN)
    first = sources.group(GroupJob(id=0, row=0, epoch=0)).row
    assert first is not None
    assert first.responses_create_params["input"] == "0", "rows keep their index in the file"
    fewer = read(rows, "grpo.max_val_samples=2")
    sources = RunRows.read(fewer.environment, row_settings(fewer.config, tmp_path))
    assert len(sources.validation(0)) == 2


def test_weights_of_agents_are_over_what_is_trained_on(rows: Path, tmp_path: Path) -> None:
    (pool,) = loop_settings(read(rows, weights={"agent": 1.0}), tmp_path).pools
    assert (pool.name, list(pool.rows)) == ("agent", sorted(set(range(N_ROWS)) - set(DRAWN)))


@pytest.mark.parametrize("changed", [{"seed": 8}, {"split_validation_size": 6}])
def test_a_resumed_run_has_the_same_split(rows: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
    out = tmp_path / "run"
    out.mkdir()
    claim(read(rows), out, resume=False)
    (out / "metrics.jsonl").write_text("{}\n")
    claim(read(rows), out, resume=True)
    with pytest.raises(ConfigError, match=r"holds another run: .*`rows\.data\.train\.split_validation_size`"):
        claim(read(rows, **changed), out, resume=True)


def test_it_stands_in_place_of_a_file_and_not_beside_one(rows: Path) -> None:
    assert read(rows, "grpo.val_period=5").config.validates
    with pytest.raises(ConfigError, match=r"split_validation_size and validation both give rows to validate on"):
        read(rows, validation=str(rows))
    assert read(rows, validation=str(rows), split_validation_size=0).config.data.validation is not None
    with pytest.raises(ConfigError, match=r"1\.5 is no number of rows"):
        read(rows, split_validation_size=1.5)
