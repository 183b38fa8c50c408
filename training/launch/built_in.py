"""The built-in loop as a command: `python -m paddock train CONFIG ... --out runs/EXP_NAME --resume`.

Law     always with `--resume`: a run that stored no checkpoint begins at its start; another run's folder is refused by
        `paddock train` itself. So the same launch goes on with the same run, whatever ended it.
Signals SIGTERM ends it cleanly with 130; its last checkpoint is what the next launch goes on from.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from paddock.training.launch.overrides import words_of, yaml_override
from paddock.training.launch.settings import RunLaunchSettings

RUNS = Path("runs")
_KEYS = {
    "model_path": "policy.model_name",
    "train_path": "data.train.data_path",
    "val_path": "data.validation.data_path",
}


def overrides_of(settings: RunLaunchSettings, extra_overrides: Sequence[str]) -> list[str]:
    """The overrides in the order in which they are applied: those of settings, the caller's, EXTRA_HYDRA_ARGS."""
    overrides = {key: getattr(settings, field) for field, key in _KEYS.items() if getattr(settings, field)}
    if settings.wandb_proj:
        overrides |= {"logger.wandb.project": settings.wandb_proj, "logger.wandb.name": settings.exp_name}
    switched = ["logger.wandb_enabled=true"] if settings.wandb_proj else []
    return [
        *(yaml_override(key, text) for key, text in overrides.items()),
        *switched,
        *extra_overrides,
        *words_of(settings.extra_hydra_args),
    ]


def interpreter(settings: RunLaunchSettings) -> str:
    return settings.python or ("python3" if settings.container else sys.executable)


def train_command(settings: RunLaunchSettings, extra_overrides: Sequence[str]) -> list[str]:
    head = [interpreter(settings), "-m", "paddock", "train", "--out", str(RUNS / settings.exp_name), "--resume"]
    return [*head, settings.config_path, *overrides_of(settings, extra_overrides)]
