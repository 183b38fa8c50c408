"""Sinks of metrics besides `metrics.jsonl`: TensorBoard and Weights & Biases, as `logger` is set.

Samples a table of each step (`sample_table`): text in TensorBoard, a table in W&B, both called `train/samples`.
Law     a package that is asked for and missing is an error before a run starts. A run that goes on writes to the same
        curves: TensorBoard hides what was written after the checkpoint, W&B keeps both. An error of a sink during a
        run is logged once and ends the sink, not the run.
"""

import importlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from paddock.errors import ConfigError
from paddock.training.grpo.config import TrackerConfig
from paddock.training.grpo.sample_table import SampledRollout, markdown_table

SAMPLES = "train/samples"
_log = logging.getLogger("paddock.training")


class Sink(Protocol):
    """One sink of metrics."""

    def open(self, after: int) -> None:
        """Get ready for the steps after this one; -1: for all."""
        ...

    def write(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def write_samples(self, step: int, samples: Sequence[SampledRollout]) -> None: ...

    def close(self) -> None: ...


def make_sinks(settings: TrackerConfig, out: Path) -> list[Sink]:
    """The sinks of the settings. ConfigError where the package of one is missing."""
    folder = settings.log_dir or out / "logs"
    sinks: list[Sink] = []
    if settings.tensorboard_enabled:
        require("tensorboard", "logger.tensorboard_enabled")
        sinks.append(TensorBoard(folder / "tensorboard"))
    if settings.wandb_enabled:
        require("wandb", "logger.wandb_enabled", extra="wandb")
        sinks.append(WeightsAndBiases(settings, folder, out))
    return sinks


def require(package: str, what: str, *, extra: str = "train") -> None:
    """ConfigError when the package is not installed."""
    if find_spec(package) is None:
        install = "paddock[train]" if extra == "train" else package
        raise ConfigError(f"{what} needs the package `{package}`: pip install '{install}'", kind="package_missing")


class TensorBoard:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._events: Any = None
        self._summaries: Any = None

    def open(self, after: int) -> None:
        files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summaries = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        self._writer = files.EventFileWriter(str(self._folder))
        if after >= 0:
            # Readers drop what they have of this step and later ones.
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._add(after + 1, session_log=start)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        value = self._summaries.Summary.Value
        self._add(
            step, summary=self._summaries.Summary(value=[value(tag=k, simple_value=v) for k, v in metrics.items()])
        )
        self._writer.flush()

    def write_samples(self, step: int, samples: Sequence[SampledRollout]) -> None:
        tensors = importlib.import_module("tensorboard.compat.proto.tensor_pb2")
        plugin = self._summaries.SummaryMetadata.PluginData(plugin_name="text")
        value = self._summaries.Summary.Value(
            tag=SAMPLES,
            metadata=self._summaries.SummaryMetadata(plugin_data=plugin),
            tensor=tensors.TensorProto(dtype="DT_STRING", string_val=[markdown_table(samples).encode()]),
        )
        self._add(step, summary=self._summaries.Summary(value=[value]))
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add(self, step: int, **what: Any) -> None:
        self._writer.add_event(self._events.Event(step=step, wall_time=time.time(), **what))


class WeightsAndBiases:
    def __init__(self, settings: TrackerConfig, folder: Path, out: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._out = out.resolve()
        self._run: Any = None

    def open(self, after: int) -> None:
        wandb = importlib.import_module("wandb")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self._settings.wandb.project,
            name=self._settings.wandb.name or self._out.name,
            id=self._id(new=after < 0),
            resume="allow",
            dir=str(self._folder),
        )
        self._run.define_metric("*", step_metric="step")

    def _id(self, *, new: bool) -> str:
        """The id of W&B's run; kept beside its files, for a resumed run."""
        path = self._folder / "wandb-id"
        if new or not path.exists():
            path.write_text(secrets.token_hex(8))
        return path.read_text()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def write_samples(self, step: int, samples: Sequence[SampledRollout]) -> None:
        wandb = importlib.import_module("wandb")
        columns, rows = list(SampledRollout._fields), [list(sample) for sample in samples]
        self._run.log({"step": step, SAMPLES: wandb.Table(columns=columns, data=rows)})

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()


class Sinks:
    """All sinks of a run; one that fails does not stop the others."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)

    def open(self, after: int) -> None:
        for sink in self._sinks:
            sink.open(after)

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._each(lambda sink: sink.write(step, metrics))

    def write_samples(self, step: int, samples: Sequence[SampledRollout]) -> None:
        self._each(lambda sink: sink.write_samples(step, samples))

    def _each(self, write: Callable[[Sink], None]) -> None:
        for sink in list(self._sinks):
            try:
                write(sink)
            except Exception as error:  # noqa: BLE001 - a run is worth more than one of its logs
                _log.warning("%s gets no more metrics: %s", type(sink).__name__, error)
                self._sinks.remove(sink)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:  # noqa: BLE001 - as above
                _log.warning("%s was not closed: %s", type(sink).__name__, error)
