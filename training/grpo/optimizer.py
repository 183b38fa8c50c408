"""The optimiser and its schedule, as torch and bitsandbytes have them under the names of the settings.

Law     a schedule is stepped once for each optimiser step; several follow each other at the milestones.
Errors  ConfigError for arguments that torch does not take, and for a package that is missing.
"""

from importlib import import_module
from typing import Any

import torch

from paddock.errors import ConfigError
from paddock.training.grpo.policy_config import OptimizerConfig, SchedulerConfig


def make_optimizer(model: Any, config: OptimizerConfig) -> Any:
    module, _, kind_name = config.name.rpartition(".")
    try:
        kind = getattr(import_module(module), kind_name)
    except ImportError as error:
        raise ConfigError(
            f"policy.optimizer.name: {config.name} needs {config.package} in this environment: "
            f"pip install {config.package} ({error})",
            kind="package_missing",
        ) from error
    trained = [value for value in model.parameters() if value.requires_grad]
    return kind(trained, **config.kwargs.model_dump())


def make_scheduler(optimizer: Any, config: SchedulerConfig) -> Any | None:
    """The schedule of the learning rate; None: it is constant."""
    made = []
    for part in config.parts:
        try:
            made.append(getattr(torch.optim.lr_scheduler, _short(part.name))(optimizer, **part.kwargs))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"policy.scheduler: {part.name}: {error}", kind="scheduler") from error
    if len(made) < 2:
        return made[0] if made else None
    return torch.optim.lr_scheduler.SequentialLR(optimizer, made, list(config.milestones))


def _short(name: str) -> str:
    return name.rpartition(".")[2]
