"""What verifiers finds by the id `paddock-environment`, where the folder `shims` is on PYTHONPATH."""

from paddock.training.verifiers.environment import PaddockEnv
from paddock.training.verifiers.taskset import PaddockTaskset

__all__ = ["PaddockEnv", "PaddockTaskset"]
