"""The optimiser and its schedule, as torch and bitsandbytes have them under the names of the settings.

Law     a schedule is stepped once for each optimiser step; several follow each other at the milestones.
Errors  ConfigError for arguments that torch does not take, and for a package that is missing.
"""

import math
from importlib import import_module
from typing import Any

import torch

from paddock.errors import ConfigError
from paddock.training.grpo.policy_config import OptimizerConfig, SchedulerConfig
from paddock.training.grpo.sharding import whole


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


def update(model: Any, optimizer: Any, scheduler: Any | None, limit: float | None) -> dict[str, float]:
    """One step with the gradients that are there, their norm clipped at `limit`. A gradient that is not finite changes
    nothing, and is counted."""
    lr = float(optimizer.param_groups[0]["lr"])
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    norm = float(whole(torch.nn.utils.clip_grad_norm_(parameters, math.inf if limit is None else limit)))
    skipped = not math.isfinite(norm)
    if not skipped:
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    return {"train/lr": lr, "train/grad_norm": norm, "train/skipped_updates": float(skipped)}


def _short(name: str) -> str:
    return name.rpartition(".")[2]
