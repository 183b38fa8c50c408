"""Rows of a data set by index, ready to run as groups.

Law     a row's index counts the non-empty lines of its file from 0, and it stands where it stood when the file was
        opened: one that was changed since is refused. Members of a group have one prompt; they are stamped with the
        row's index and the epoch, as a collection's are.
Errors  ConfigError for a file that can't be read, has no rows, or too few for a step. A row that can't run is a group
        with its RowError.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

from paddock.collect import EvalSettings, Plan, PlannedGroup, make_plan
from paddock.collect.rows import RowFileLine, file_facts
from paddock.config import Config, find_file, validate
from paddock.errors import ConfigError
from paddock.training.core.order import RowPool
from paddock.training.grpo.config import DataConfig, TrainConfig
from paddock.training.grpo.row_split import HeldOutSplit, split_rows
from paddock.types import JsonObject
from paddock.types.responses import new_id

_NO_SAMPLING: Mapping[str, int] = MappingProxyType({})
TRAIN, VALIDATION, SPLIT = "data.train.data_path", "data.validation.data_path", "data.train.split_validation_size"


class IndexedRows:
    """The rows of one file by index. `sampling` is set on each row's request, over the row's own parameters."""

    def __init__(self, config: Config, path: Path, sampling: JsonObject) -> None:
        self._plan = _plan(config, path)
        self._sampling = sampling
        self._source = self._plan.sources[0]
        self._starts = list(_starts(self._source.path))

    def __len__(self) -> int:
        return len(self._starts)

    def group(
        self, index: int, *, size: int, epoch: int, run_id: str, sampling: Mapping[str, int] = _NO_SAMPLING
    ) -> PlannedGroup:
        """The row of that index, for `size` members. Each call makes another cohort: a group that is run again has
        nothing in common with the members before. `sampling`: parameters of this group alone."""
        group = self._plan.group(self._line(index))
        if group.row is None:
            return group._replace(size=size)
        fields = {"run_id": run_id, "group_size": size, "epoch": epoch, "cohort": new_id("cohort")}
        stamp = group.row.stamp.model_copy(update=fields)
        params = {**group.row.responses_create_params, **self._sampling, **sampling}
        row = group.row.model_copy(update={"stamp": stamp, "responses_create_params": params})
        return group._replace(row=row, size=size)

    def _line(self, index: int) -> RowFileLine:
        number, start, length, check = self._starts[index]
        with self._source.path.open("rb") as file:
            file.seek(start)
            text = file.read(length)
        if len(text) != length or crc32(text) != check:
            raise ConfigError(f"{self._source.path}: was changed since the run began", kind="rows_changed")
        return RowFileLine(index, self._source, number, text)


def rows_files(data: DataConfig) -> dict[str, Path]:
    """Files of rows by the key that names them."""
    return {key: _find(key, path) for key, path in _paths(data).items()}


def missing_files(data: DataConfig) -> list[tuple[str, str]]:
    """The missing files: the key that names each, and its path as written."""
    return [(key, path) for key, path in _paths(data).items() if not _is_there(path)]


def _paths(data: DataConfig) -> dict[str, str]:
    fields = {TRAIN: data.train, VALIDATION: data.validation}
    return {key: file.data_path for key, file in fields.items() if file is not None}


def _is_there(path: str) -> bool:
    try:
        find_file(path)
    except ConfigError:
        return False
    return True


def _find(key: str, path: str) -> Path:
    try:
        return find_file(path)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error.message}", kind=error.kind) from error


def split_of(data: DataConfig) -> HeldOutSplit:
    """The rows of the training file that are trained on, and those that are held out of it."""
    return split_rows(file_facts(rows_files(data)[TRAIN]).n_rows, data.train.split_validation_size, data.train.seed)


def n_rows_of(config: TrainConfig) -> int:
    """The number of rows that are trained on. ConfigError where they make no step."""
    return len(_train_rows(config))


def _train_rows(config: TrainConfig) -> Sequence[int]:
    rows = split_of(config.data).train
    count = len(rows)
    if count * config.grpo.max_num_epochs < config.grpo.num_prompts_per_step:
        raise ConfigError(
            f"{config.data.train.data_path} has {count} row{'' if count == 1 else 's'} to train on "
            f"(data.train.data_path): grpo.max_num_epochs ({config.grpo.max_num_epochs}) of them make no step of "
            f"grpo.num_prompts_per_step ({config.grpo.num_prompts_per_step})",
            kind="rows_missing",
        )
    return rows


def row_pools(config: TrainConfig, environment: Config) -> Sequence[RowPool]:
    """The training rows by agent where `data.train.weights` weighs them, else all in one pool. `environment`: the
    config of the servers. ConfigError for weights that do not fit the agents of the rows."""
    trained, weights = _train_rows(config), config.data.train.weights
    if weights is None:
        return [RowPool(trained)]
    by_agent: dict[str, list[int]] = {}
    known = set(trained)
    for group in _plan(environment, rows_files(config.data)[TRAIN]).groups():
        if group.line.index not in known:
            continue
        if group.agent is None:
            assert group.error is not None
            raise ConfigError(f"data.train.weights: {group.error.message}", kind=group.error.kind)
        by_agent.setdefault(group.agent.name, []).append(group.line.index)
    counts = ", ".join(f"{name} ({len(rows)})" for name, rows in by_agent.items())
    for name in weights.keys() ^ by_agent.keys():
        what = f"no row is run by {name!r}" if name in weights else f"there is no weight for {name!r}"
        raise ConfigError(f"data.train.weights: {what}; the rows are run by {counts}", kind="weights")
    return [RowPool(rows, weights[name], name) for name, rows in by_agent.items()]


def _plan(config: Config, path: Path) -> Plan:
    """Of one file, each row once."""
    settings = validate(EvalSettings, config.top("eval"), "eval")
    return make_plan(config, settings.model_copy(update={"rows": [str(path)], "repeats": 1}))


def _starts(path: Path) -> "list[tuple[int, int, int, int]]":
    """Line number, first byte, length and checksum of each row."""
    starts = []
    start = 0
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.isspace():
                starts.append((number, start, len(text), crc32(text)))
            start += len(text)
    return starts
