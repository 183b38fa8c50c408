"""Whose a run's folder is: `config.json`, which names the run, is written first and compared when it is resumed.

Law     a run is resumed with the config that it was begun with, but for `MAY_CHANGE` and where its servers are and how
        patiently they are waited for. Interpolations in the servers' part are kept as they are written, and a literal
        under a key that names a secret is never written.
Errors  ConfigError `folder_taken`, `run_differs`.
"""

from pathlib import Path

import orjson

from paddock.collect.folder import write_json
from paddock.collect.identity import blanked, changed, placeless, public_tree
from paddock.errors import ConfigError
from paddock.training.grpo.reading import ReadConfig

CONFIG = "config.json"
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
    """The folder is this run's; ConfigError when it is another's."""
    train = read.config.model_dump(mode="json")
    now = {"train": blanked(train), "servers": placeless(public_tree(read.environment))}
    path = out / CONFIG
    if not path.exists():
        write_json(path, now)
        return
    if not resume:
        raise ConfigError(
            f"{out} holds a run already: go on with it (--resume) or take another folder (--out)", kind="folder_taken"
        )
    before = orjson.loads(path.read_bytes())
    differing = [text for text in changed(before, now) if not text.startswith(tuple(f"`{key}" for key in MAY_CHANGE))]
    if differing:
        raise ConfigError(f"{out} holds another run: {', '.join(differing[:8])}", kind="run_differs")
