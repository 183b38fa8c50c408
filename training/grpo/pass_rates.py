"""Pass rates of training rows that an evaluation measured before the run: the mean rewards of its `results.jsonl`.

Law     only an evaluation of the very rows counts: a file of the same bytes as `data.train.data_path`.
Errors  ConfigError for a folder that is no run of `paddock eval`, and for one that had other rows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from paddock.collect import read_identity
from paddock.collect.folder import RESULTS
from paddock.collect.rows import file_facts
from paddock.errors import ConfigError
from paddock.training.grpo.config import TrainConfig
from paddock.training.grpo.rows import TRAIN, rows_files

KEY = "paddock.curriculum.pass_rates"


def pass_rates(config: TrainConfig) -> dict[int, float]:
    """Mean reward by the row's index; empty where none are given. A row without a verdict has none."""
    given = config.paddock.curriculum.pass_rates
    if given is None:
        return {}
    folder, rows = Path(given).expanduser(), rows_files(config.data)[TRAIN]
    start, digest = 0, file_facts(rows).sha256
    for file in read_identity(folder).rows:
        if file.sha256 == digest:
            own = ((line["group_id"] - start, line["mean"]) for line in _results(folder / RESULTS))
            return {index: mean for index, mean in own if 0 <= index < file.n_rows and mean is not None}
        start += file.n_rows
    raise ConfigError(f"{KEY}: {folder} is of other rows: evaluate {rows} itself (`paddock eval`)", kind="other_rows")


def _results(path: Path) -> Iterator[Any]:
    """The whole lines."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return (orjson.loads(line) for line in lines if line.endswith(b"\n"))
