"""The run lock: a folder belongs to the run that its `config.json` names, which a resumed run is compared with.

Law     a run is resumed with the config and the rows that it was started with, but for `CHANGEABLE_KEYS` and the
        addresses and timeouts of its servers. Interpolations in the servers' part are kept as they are written, and a
        literal under a key that names a secret is never written. A setting that the version which wrote the config did
        not have is the same where it is the default.
        A folder in which something else was written is left alone. One whose run ended before it did anything (because
        a model was missing) may be taken by any run.
        Checkpoints in a folder of their own (`checkpointing.checkpoint_dir`, which recipes give as a relative path)
        are of one run as well: `run.json` beside them names it.
Errors  ConfigError `folder_taken`, `run_differs`, `checkpoints_taken`, and for rows that can't be read; nothing is
        written then.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from paddock.collect.folder import has_run, write_json
from paddock.collect.identity import blank_secrets, changed, identifying_part, public_tree
from paddock.collect.rows import file_facts
from paddock.errors import ConfigError
from paddock.training.grpo.config import DataConfig
from paddock.training.grpo.journals import NAMES
from paddock.training.grpo.metrics_log import METRICS
from paddock.training.grpo.read_config import RunConfig
from paddock.training.grpo.rows import SPLIT, rows_files, split_of
from paddock.types import JsonObject
from paddock.types.responses import new_id

CONFIG = "config.json"
OWNER = "run.json"
_TAKEN = "folder_taken"
CHANGEABLE_KEYS = (
    "train.grpo.max_num_steps",
    "train.grpo.max_num_epochs",
    "train.grpo.val_",
    "train.grpo.max_val_samples",
    "train.grpo.stop_at_validation_",
    "train.grpo.async_grpo.max_generation_failures",
    "train.checkpointing.metric_name",
    "train.checkpointing.higher_is_better",
    "train.checkpointing.keep_top_k",
    "train.checkpointing.save_period",
    "train.checkpointing.is_async",
    "train.checkpointing.checkpoint_must_save_by",
    "train.logger",
    "train.cluster",
    "train.policy.torch_cfg",
    "train.policy.train_micro_batch_size",
    "train.policy.logprob_chunk_size",
    "train.policy.sequence_packing",
    "train.policy.dynamic_batching",
    "train.policy.dtensor_cfg.activation_checkpointing",
    "train.policy.dtensor_cfg.cpu_offload",
    "train.on_policy_distillation.servers",
    "train.paddock.curriculum.pass_rates",
    "train.paddock.groups.member_timeout_s",
    "train.paddock.policy_timeout_s",
    "train.paddock.restart",
    "train.paddock.recipe",
)
"""Keys that may differ in a resumed run, besides addresses and timeouts of servers. Which teachers it has is in
`teacher_model_by_agent_name`."""
OLD_NAMES = {"max_age_retries": "max_retries"}
"""Settings that the version before wrote under other names."""


def claim(read: RunConfig, out: Path, *, resume: bool) -> None:
    """Take the folder, and that of the checkpoints, for this run; ConfigError when one belongs to another."""
    train = read.config.model_dump(mode="json")
    current = {
        "train": blank_secrets(train),
        "servers": identifying_part(public_tree(read.environment)),
        "rows": dict(_rows(read.config.data)),
    }
    checkpoints = read.config.checkpointing.checkpoint_dir if read.config.checkpointing.enabled else None
    given = {"train": read.config.model_dump(mode="json", exclude_defaults=True)}
    claim_folder(out, current, checkpoints, CHANGEABLE_KEYS, given, resume=resume)


def claim_folder(
    out: Path,
    current: JsonObject,
    checkpoints: Path | None,
    changeable: Sequence[str],
    given: JsonObject,
    *,
    resume: bool,
) -> None:
    """Take the folders for the run that `current` describes. `checkpoints`: the folder of its checkpoints where that is
    not in `out`; `changeable`: keys of `current` that may differ in a resumed run; `given`: its settings without those
    that are defaults."""
    path = out / CONFIG
    stored_config = _read(path, current.keys()) if path.exists() else None
    if stored_config is None and has_run(out):
        raise ConfigError(f"{out} holds something else than a training run: take another folder (--out)", kind=_TAKEN)
    if stored_config is not None and _has_results(out):
        _require_same(out, _with_new_settings(stored_config, current, given), current, changeable, resume=resume)
    run = stored_config["run"] if stored_config is not None else new_id("run")
    if checkpoints is not None:
        _require_own(checkpoints, run)
    if stored_config is None or not _has_results(out):
        write_json(path, {"run": run, **current})
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_json(checkpoints / OWNER, {"run": run, "folder": str(out.resolve())})


def _rows(data: DataConfig) -> Iterator[tuple[str, str]]:
    """The number and hash of the rows, by the key of their file; of held-out ones, the hash of their indices."""
    for key, path in rows_files(data).items():
        facts = file_facts(path)
        yield key, f"{facts.n_rows} rows, sha256 {facts.sha256[:16]}"
    if held_out := split_of(data).validation:
        yield SPLIT, f"{len(held_out)} rows, sha256 {hashlib.sha256(str(sorted(held_out)).encode()).hexdigest()[:16]}"


def _read(path: Path, keys: Collection[str]) -> JsonObject:
    """The config that `claim` wrote."""
    try:
        stored: Any = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError:
        stored = None
    if not isinstance(stored, dict) or not {"run", *keys} <= stored.keys():
        raise ConfigError(f"{path} is no training run's: take another folder (--out)", kind=_TAKEN)
    return stored


def _has_results(out: Path) -> bool:
    """Whether the run in the folder has results that would be lost."""
    return any((out / name).exists() and (out / name).stat().st_size for name in (METRICS, *NAMES))


def _require_same(
    out: Path, stored_config: JsonObject, current: JsonObject, changeable: Sequence[str], *, resume: bool
) -> None:
    """ConfigError unless the run in the folder is this one, and is to be resumed."""
    if not resume:
        raise ConfigError(
            f"{out} holds a run already: go on with it (--resume) or take another folder (--out)", kind=_TAKEN
        )
    stored = {key: value for key, value in stored_config.items() if key != "run"}
    differing = [
        text for text in changed(stored, current) if not text.startswith(tuple(f"`{key}" for key in changeable))
    ]
    if differing:
        raise ConfigError(f"{out} holds another run: {', '.join(differing[:8])}", kind="run_differs")


def _with_new_settings(stored: JsonObject, current: JsonObject, given: JsonObject) -> JsonObject:
    """The stored config with settings that the version which wrote it did not have, as far as they are defaults now."""
    out = dict(stored)
    for block in given:
        out[block] = _with_defaults(stored[block], current[block], given[block])
    return out


def _with_defaults(stored: JsonObject, current: JsonObject, given: JsonObject) -> JsonObject:
    out = {OLD_NAMES.get(key, key): value for key, value in stored.items()}
    for key, value in current.items():
        if key not in out and key not in given:
            out[key] = value
        elif isinstance(value, dict) and isinstance(out.get(key, {}), dict):
            out[key] = _with_defaults(out.get(key, {}), value, given.get(key, {}))
    return out


def _require_own(checkpoints: Path, run: str) -> None:
    file = checkpoints / OWNER
    info = orjson.loads(file.read_bytes()) if file.exists() else {}
    if info.get("run") == run or not (info or any(checkpoints.glob("step_*"))):
        return
    owner = f"the run in {info['folder']}" if info else "another run"
    raise ConfigError(
        f"checkpointing.checkpoint_dir: {checkpoints} has the checkpoints of {owner}: give each run its own, or null "
        "for one below --out",
        kind="checkpoints_taken",
    )
