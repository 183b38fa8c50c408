"""Pass rates of training rows that an evaluation measured before the run: the mean rewards of its `results.jsonl`.

Law     only an evaluation of the very rows counts: a file of the same bytes as `data.train.data_path`.
Errors  ConfigError for a folder that is no run of `paddock eval`, has no results, or damaged ones, and for one that had
        other rows.
"""

from pathlib import Path

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
            means = _means(folder / RESULTS).items()
            return {index - start: mean for index, mean in means if start <= index < start + file.n_rows}
        start += file.n_rows
    raise ConfigError(f"{KEY}: {folder} is of other rows: evaluate {rows} itself (`paddock eval`)", kind="other_rows")


def _means(path: Path) -> dict[int, float]:
    """By the number of the group, of the whole lines."""
    try:
        lines = [orjson.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        return {int(line["group_id"]): float(line["mean"]) for line in lines if line["mean"] is not None}
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{KEY}: {path} can't be read: {error!r}", kind="results_unreadable") from error
