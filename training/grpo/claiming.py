"""Whose a run's folder is: `config.json`, which names the run, is written first and compared when it is resumed.

Law     a run is resumed with the config that it was begun with, but for `MAY_CHANGE` and where its servers are and how
        patiently they are waited for. Interpolations in the servers' part are kept as they are written, and a literal
        under a key that names a secret is never written.
        Checkpoints in a folder of their own (`checkpointing.checkpoint_dir`, which recipes give as a relative path)
        are of one run as well: `run.json` beside them names it.
Errors  ConfigError `folder_taken`, `run_differs`, `checkpoints_taken`; nothing is written then.
"""

from pathlib import Path

import orjson

from paddock.collect.folder import write_json
from paddock.collect.identity import blanked, changed, placeless, public_tree
from paddock.errors import ConfigError
from paddock.training.grpo.reading import ReadConfig
from paddock.types import JsonObject
from paddock.types.responses import new_id

CONFIG = "config.json"
OWNER = "run.json"
MAY_CHANGE = (
    "train.grpo.max_num_steps",
    "train.grpo.max_num_epochs",
    "train.grpo.val_",
    "train.grpo.max_val_samples",
    "train.checkpointing",
    "train.logger",
    "train.cluster",
    "train.policy.torch_cfg",
    "train.policy.train_micro_batch_size",
)
"""Keys that a resumed run may have otherwise; places of servers and their patience besides."""


def claim(read: ReadConfig, out: Path, *, resume: bool) -> None:
    """The folder is this run's, and so is that of its checkpoints; ConfigError when one is another's."""
    train = read.config.model_dump(mode="json")
    now = {"train": blanked(train), "servers": placeless(public_tree(read.environment))}
    checkpoints = read.config.checkpointing.checkpoint_dir if read.config.checkpointing.enabled else None
    path = out / CONFIG
    run = _claimed(path, now, resume=resume) if path.exists() else new_id("run")
    if checkpoints is not None:
        _require_own(checkpoints, run)
    if not path.exists():
        write_json(path, {"run": run, **now})
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        write_json(checkpoints / OWNER, {"run": run, "folder": str(out.resolve())})


def _claimed(path: Path, now: JsonObject, *, resume: bool) -> str:
    """The run that has the folder; this one."""
    if not resume:
        raise ConfigError(
            f"{path.parent} holds a run already: go on with it (--resume) or take another folder (--out)",
            kind="folder_taken",
        )
    before = orjson.loads(path.read_bytes())
    run: str = before.pop("run")
    differing = [text for text in changed(before, now) if not text.startswith(tuple(f"`{key}" for key in MAY_CHANGE))]
    if differing:
        raise ConfigError(f"{path.parent} holds another run: {', '.join(differing[:8])}", kind="run_differs")
    return run


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
