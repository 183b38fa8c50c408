"""Claims about pass rates that an evaluation measured: of the very rows, by their index."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.training.grpo.test_train import TREE

from paddock.collect import EvalSettings, evaluate, make_plan
from paddock.config import load
from paddock.errors import ConfigError
from paddock.training.grpo.pass_rates import pass_rates
from paddock.training.grpo.read_config import RunConfig, read_config
from paddock.training.grpo.train import loop_settings

SCRIPTED = "paddock.conformance.scripted"
Read = Callable[..., RunConfig]


@pytest.fixture
async def read(tmp_path: Path) -> Read:
    """Reads the config of a run over `mine.jsonl`, which was evaluated after three other rows, two rollouts a row: the
    first row failed, the second was wrong, the third right."""

    def write(name: str, rows: list[dict[str, Any]]) -> str:
        path = tmp_path / name
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        return str(path)

    row = {"responses_create_params": {"input": "q"}, "answer": "yes"}
    others = write("others.jsonl", [row] * 3)
    mine = write("mine.jsonl", [{**row, "grade": "verifier"}, {**row, "answer": "no"}, row])
    refers = {
        "resources_server": {"type": "resources_servers", "name": "environment"},
        "model_server": {"type": "models_servers", "name": "policy"},
    }
    tree = {
        "environment": {"resources_servers": {f"{SCRIPTED}:ScriptedEnvironment": {}}},
        "agent": {"agents": {"single_step": refers}},
        "policy": {"models_servers": {f"{SCRIPTED}:ScriptedModel": {}}},
    }
    settings = EvalSettings(rows=[others, mine], repeats=2, retry_wait_s=0, max_attempts=1)
    await evaluate(make_plan(load([], extra=tree), settings), tmp_path / "evaluated", quiet=True)

    def read(rows: str = "mine.jsonl", **curriculum: Any) -> RunConfig:
        data = {"train": {"data_path": str(tmp_path / rows)}}
        given = {"pass_rates": str(tmp_path / "evaluated"), "easy_weight": 0.5, **curriculum}
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump({**TREE, "data": data, "paddock": {"curriculum": given}}))
        return read_config(path, ())

    return read


def test_they_are_of_the_rows_that_are_trained_on(read: Read, tmp_path: Path) -> None:
    assert pass_rates(read().config) == {1: 0.0, 2: 1.0}
    assert pass_rates(read("others.jsonl").config) == {0: 1.0, 1: 1.0, 2: 1.0}
    assert pass_rates(read(pass_rates=None).config) == {}
    assert loop_settings(read(), tmp_path).pass_rates == {1: 0.0, 2: 1.0}


def test_those_of_other_rows_and_of_no_run_are_refused(read: Read, tmp_path: Path) -> None:
    (tmp_path / "changed.jsonl").write_bytes((tmp_path / "mine.jsonl").read_bytes() + b"\n")
    with pytest.raises(ConfigError, match=r"is of other rows: evaluate .*changed\.jsonl itself"):
        pass_rates(read("changed.jsonl").config)
    with pytest.raises(ConfigError, match="can't be read"):
        pass_rates(read(pass_rates=str(tmp_path / "nothing")).config)


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b'{"group_id": 3, "mean": "high"}\n', b"{\n", None])
def test_results_that_are_none_are_refused_by_name(read: Read, tmp_path: Path, line: bytes | None) -> None:
    path = tmp_path / "evaluated" / "results.jsonl"
    if line is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + line)
    with pytest.raises(ConfigError, match=r"pass_rates: .*results\.jsonl can't be read"):
        pass_rates(read().config)
