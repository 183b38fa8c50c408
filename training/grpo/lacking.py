"""What a recipe needs that is not here: variables, files, servers, packages, more machines. A plan tells it, a start
refuses it.

Law     for a plan, an unset variable of the trainer's part stands as `$NAME`; one of the servers' part leaves its
        server unchecked. No value of the environment is shown.
Errors  `require_one_machine`, `require_packages`: ConfigError. The rest raises nothing.
"""

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from paddock.config import Config
from paddock.config.trees import KeyPath, dotted, map_strings, strings
from paddock.errors import ConfigError
from paddock.training.grpo.config import TrainConfig
from paddock.types import JsonObject

LATE: tuple[KeyPath, ...] = (("env", "nemo_gym"), ("policy", "generation", "vllm"))
"""Blocks whose variables are read when their servers start."""
NEEDED = ("torch", "transformers", "ray", "matplotlib")
"""What a run imports in this interpreter; engines have one of their own."""
DRIVER = Path("/proc/driver/nvidia")
"""There where the machine has NVIDIA's GPUs."""
_VARIABLE = re.compile(r"\$\{\s*oc\.env:\s*([A-Za-z_]\w*)\s*\}")


class Unset(NamedTuple):
    """A variable that is not set, and a key that reads it."""

    variable: str
    key: str

    def __str__(self) -> str:
        return f"variable {self.variable}, read by `{self.key}`"


class Server(NamedTuple):
    """One server of the config."""

    name: str
    problems: list[str]
    """Its own: variables that it reads and nobody set."""
    can_be_checked: bool
    """Neither it nor any that it asks has a problem."""


def stand_in(tree: JsonObject) -> list[Unset]:
    """Put `$NAME` where an unset variable is read, in `tree` itself; what was found."""
    found: list[Unset] = []
    for path, text in list(strings(tree)):
        if not any(path[: len(late)] == late for late in LATE):
            found += [Unset(name, dotted(path)) for name in _VARIABLE.findall(text) if name not in os.environ]
    if found:
        tree.update(_outside(tree, ()))
    return found


def servers(config: Config) -> Iterator[Server]:
    """All of a config."""
    own: dict[str, list[str]] = {}
    for name in config.instances:
        try:
            config.require([name])
        except ConfigError as error:
            lines = error.message.splitlines()
            own[name] = [line.removeprefix("  - ") for line in (lines if len(lines) == 1 else lines[1:])]
    for name in config.instances:
        yield Server(name, own.get(name, []), not own.keys() & set(config.needed([name])))


def packages(config: TrainConfig) -> list[str]:
    """Those that a run imports here and that are not installed; a recipe of several machines is no run of ours."""
    if config.cluster.num_nodes > 1:
        return []
    sinks = {"tensorboard": config.logger.tensorboard_enabled, "wandb": config.logger.wandb_enabled}
    needed = [*NEEDED, *(name for name, is_asked in sinks.items() if is_asked)]
    return [name for name in needed if find_spec(name) is None]


def require_packages(config: TrainConfig) -> None:
    """ConfigError with all that are missing."""
    if missing := packages(config):
        raise ConfigError(
            f"training needs {', '.join(missing)}: pip install 'paddock[train]'"
            f"{' wandb' if 'wandb' in missing else ''}, or run this with the interpreter of an environment made by "
            "scripts/setup_vllm.sh, as `$PADDOCK_VLLM_PYTHON -m paddock train ...`",
            kind="package_missing",
        )


def gpus(config: TrainConfig) -> str | None:
    """What is to be said of a recipe for GPUs on a machine without; None: nothing."""
    if config.cluster.gpus_per_node and config.cluster.num_nodes == 1 and not DRIVER.exists():
        return f"GPUs: cluster.gpus_per_node is {config.cluster.gpus_per_node}, and this machine has none of NVIDIA's"
    return None


def require_one_machine(config: TrainConfig) -> None:
    """ConfigError for a recipe of several."""
    if (text := machines(config)) is not None:
        raise ConfigError(text, kind="machines")


def machines(config: TrainConfig) -> str | None:
    """What is to be said of a recipe of several machines; None: it is one's."""
    count = config.cluster.num_nodes
    if count == 1:
        return None
    return (
        f"cluster.num_nodes is {count}, and all processes of this loop are on one machine: run the recipe's source "
        "with NeMo-RL (`paddock launch --trainer nemo_rl`), or make a smaller recipe and set cluster.num_nodes to 1"
    )


def _outside(tree: JsonObject, path: KeyPath) -> JsonObject:
    """A copy with stand-ins, but for the blocks that are read late."""
    out: JsonObject = {}
    for key, value in tree.items():
        below = (*path, key)
        if below in LATE:
            out[key] = value
        else:
            out[key] = _outside(value, below) if isinstance(value, dict) else map_strings(value, _told)
    return out


def _told(text: str) -> str:
    return _VARIABLE.sub(lambda found: f"${found[1]}" if found[1] not in os.environ else found[0], text)
