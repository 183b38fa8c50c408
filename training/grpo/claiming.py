"""Whose a run's folder is: `config.json`, which names the run, is written first and compared when it is resumed.

Law     a run is resumed with the config and the rows that it was begun with, but for `MAY_CHANGE` and where its servers
        are and how patiently they are waited for. Interpolations in the servers' part are kept as they are written, and
        a literal under a key that names a secret is never written.
        A folder in which something else was written is left alone. One whose run ended before it did anything (a model
        that is not there) is whoever's comes next.
        Checkpoints in a folder of their own (`checkpointing.checkpoint_dir`, which recipes give as a relative path)
        are of one run as well: `run.json` beside them names it.
Errors  ConfigError `folder_taken`, `run_differs`, `checkpoints_taken`, and for rows that can't be read; nothing is
        written then.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from paddock.collect.folder import has_run, write_json
from paddock.collect.identity import blanked, changed, placeless, public_tree
from paddock.collect.rows import file_facts
from paddock.errors import ConfigError
from paddock.training.grpo.config import DataConfig
from paddock.training.grpo.journals import NAMES
from paddock.training.grpo.metrics_log import METRICS
from paddock.training.grpo.reading import ReadConfig
from paddock.training.grpo.rows import rows_files
from paddock.types import JsonObject
from paddock.types.responses import new_id

CONFIG = "config.json"
OWNER = "run.json"
_TAKEN = "folder_taken"
MAY_CHANGE = (
    "train.grpo.max_num_steps",
    "train.grpo.max_num_epochs",
    "train.grpo.val_",
    "train.grpo.max_val_samples",
    "train.grpo.async_grpo.max_generation_failures",
    "train.checkpointing.metric_name",
    "train.checkpointing.higher_is_better",
    "train.checkpointing.keep_top_k",
    "train.checkpointing.save_period",
    "train.checkpointing.checkpoint_must_save_by",
    "train.logger",
    "train.cluster",
    "train.policy.torch_cfg",
    "train.policy.train_micro_batch_size",
    "train.paddock.policy_timeout_s",
    "train.paddock.recipe",
)
"""Keys that a resumed run may have otherwise; places of servers and their patience besides."""


def claim(read: ReadConfig, out: Path, *, resume: bool) -> None:
    """The folder is this run's, and so is that of its checkpoints; ConfigError when one is another's."""
    train = read.config.model_dump(mode="json")
    now = {
        "train": blanked(train),
        "servers": placeless(public_tree(read.environment)),
        "rows": dict(_rows(read.config.data)),
    }
    checkpoints = read.config.checkpointing.checkpoint_dir if read.config.checkpointing.enabled else None
    path = out / CONFIG
    before = _read(path) if path.exists() else None
    if before is None and has_run(out):
        raise ConfigError(f"{out} holds something else than a training run: take another folder (--out)", kind=_TAKEN)
    if before is not None and _came_to_something(out):
        _require_same(out, before, now, resume=resume)
    run = before["run"] if before is not None else new_id("run")
    if checkpoints is not None:
        _require_own(checkpoints, run)
    if before is None or not _came_to_something(out):
        write_json(path, {"run": run, **now})
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_json(checkpoints / OWNER, {"run": run, "folder": str(out.resolve())})


def _rows(data: DataConfig) -> Iterator[tuple[str, str]]:
    """Which rows, by the key of their file."""
    for key, path in rows_files(data).items():
        facts = file_facts(path)
        yield key, f"{facts.n_rows} rows, sha256 {facts.sha256[:16]}"


def _read(path: Path) -> JsonObject:
    """What `claim` wrote."""
    try:
        found: Any = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not {"run", "train", "servers"} <= found.keys():
        raise ConfigError(f"{path} is no training run's: take another folder (--out)", kind=_TAKEN)
    return found


def _came_to_something(out: Path) -> bool:
    """Whether anything would be lost with its run."""
    return any((out / name).exists() and (out / name).stat().st_size for name in (METRICS, *NAMES))


def _require_same(out: Path, before: JsonObject, now: JsonObject, *, resume: bool) -> None:
    """This run has the folder, and is gone on with."""
    if not resume:
        raise ConfigError(
            f"{out} holds a run already: go on with it (--resume) or take another folder (--out)", kind=_TAKEN
        )
    told = {key: value for key, value in before.items() if key != "run"}
    differing = [text for text in changed(told, now) if not text.startswith(tuple(f"`{key}" for key in MAY_CHANGE))]
    if differing:
        raise ConfigError(f"{out} holds another run: {', '.join(differing[:8])}", kind="run_differs")


def _require_own(checkpoints: Path, run: str) -> None:
    owner = checkpoints / OWNER
    about = orjson.loads(owner.read_bytes()) if owner.exists() else {}
    if about.get("run") == run or not (about or any(checkpoints.glob("step_*"))):
        return
    whose = f"the run in {about['folder']}" if about else "another run"
    raise ConfigError(
        f"checkpointing.checkpoint_dir: {checkpoints} has the checkpoints of {whose}: give each run its own, or null "
        "for one below --out",
        kind="checkpoints_taken",
    )
