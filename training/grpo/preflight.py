"""Preflight: what a recipe needs that is not here (variables, files, servers, packages, machines). A plan lists it, a
start refuses it.

Law     for a plan, an unset variable of the trainer's part stands as `$NAME`; one of the servers' part leaves its
        server unchecked. No value of the environment is shown.
Errors  `require_machines`, `require_packages`: ConfigError. The rest raises nothing.
"""

import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from paddock.config import Config
from paddock.config.trees import KeyPath, dotted, map_strings, strings
from paddock.errors import ConfigError
from paddock.training.grpo.config import TrackerConfig, TrainConfig
from paddock.types import JsonObject

LATE_BLOCKS: tuple[KeyPath, ...] = (("env", "nemo_gym"), ("policy", "generation", "vllm"))
"""Blocks whose variables are read when their servers start."""
PACKAGES = ("torch", "transformers", "ray")
"""Packages that the policy and its processes import in this interpreter; engines have an interpreter of their own."""
DRIVER = Path("/proc/driver/nvidia")
"""Exists where the machine has NVIDIA GPUs."""
_VARIABLE = re.compile(r"\$\{\s*oc\.env:\s*([A-Za-z_]\w*)\s*\}")


class UnsetVariable(NamedTuple):
    """A variable that is not set, and a key that reads it."""

    variable: str
    key: str

    def __str__(self) -> str:
        return f"variable {self.variable}, read by `{self.key}`"


class ServerCheck(NamedTuple):
    """What is wrong with one server of the config."""

    name: str
    problems: list[str]
    """Its own problems: variables that it reads and that are not set."""
    can_be_checked: bool
    """Whether neither it nor any server that it calls has a problem."""


def replace_unset(tree: JsonObject) -> list[UnsetVariable]:
    """Put `$NAME` where an unset variable is read, in `tree` itself; the variables that are not set."""
    unset: list[UnsetVariable] = []
    for path, text in list(strings(tree)):
        if not any(path[: len(late)] == late for late in LATE_BLOCKS):
            unset += [UnsetVariable(name, dotted(path)) for name in _VARIABLE.findall(text) if name not in os.environ]
    if unset:
        tree.update(_with_stand_ins(tree, ()))
    return unset


def server_checks(config: Config) -> Iterator[ServerCheck]:
    """All servers of a config."""
    own: dict[str, list[str]] = {}
    for name in config.instances:
        try:
            config.require([name])
        except ConfigError as error:
            lines = error.message.splitlines()
            own[name] = [line.removeprefix("  - ") for line in (lines if len(lines) == 1 else lines[1:])]
    for name in config.instances:
        yield ServerCheck(name, own.get(name, []), not own.keys() & set(config.needed([name])))


def missing_packages(config: TrainConfig) -> list[str]:
    """The packages that a run imports here and that are not installed; none for a recipe of several machines, which
    does not run here alone."""
    if machine_problem(config) is not None:
        return []
    own = [] if config.policy.megatron_cfg.enabled else [config.policy.optimizer.package]
    own += [config.value.optimizer.package] if config.value.enabled else []
    return missing_of(list(dict.fromkeys([*PACKAGES, "matplotlib", *own, *sink_packages(config.logger)])))


def sink_packages(logger: TrackerConfig) -> list[str]:
    sinks = {"tensorboard": logger.tensorboard_enabled, "wandb": logger.wandb_enabled}
    return [name for name, enabled in sinks.items() if enabled]


def missing_of(packages: Sequence[str]) -> list[str]:
    """Those of the packages that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def require_packages(missing: Sequence[str]) -> None:
    """ConfigError with all packages that are missing."""
    if missing:
        raise ConfigError(
            f"training needs {', '.join(missing)}: pip install 'paddock[train]'"
            f"{' wandb' if 'wandb' in missing else ''}, or run this with the interpreter of an environment made by "
            "scripts/setup_vllm.sh, as `$PADDOCK_VLLM_PYTHON -m paddock ...`",
            kind="package_missing",
        )


def gpu_problem(config: TrainConfig) -> str | None:
    """What is missing where a recipe needs GPUs and the machine has none; None: nothing is."""
    alone = config.cluster.num_nodes == 1 and config.cluster.address is None
    if config.cluster.gpus_per_node and alone and not DRIVER.exists():
        return f"GPUs: cluster.gpus_per_node is {config.cluster.gpus_per_node}, and this machine has no NVIDIA GPUs"
    return None


def require_machines(config: TrainConfig) -> None:
    """ConfigError for a recipe of several machines without a cluster."""
    if (text := machine_problem(config)) is not None:
        raise ConfigError(text, kind="machines")


def machine_problem(config: TrainConfig) -> str | None:
    """Why a recipe of several machines can't run here; None: it is for one machine, or names a cluster."""
    count = config.cluster.num_nodes
    if count == 1 or config.cluster.address is not None:
        return None
    return (
        f"cluster.num_nodes is {count}, and without cluster.address a run has this machine alone: start Ray on each "
        "machine (`ray start`) and set cluster.address to the head's HOST:PORT, run the recipe's source with NeMo-RL "
        "(`paddock launch --trainer nemo_rl`), or make a smaller recipe and set cluster.num_nodes to 1"
    )


def _with_stand_ins(tree: JsonObject, path: KeyPath) -> JsonObject:
    """A copy of `tree` with stand-ins, but for the blocks that are read late."""
    out: JsonObject = {}
    for key, value in tree.items():
        below = (*path, key)
        if below in LATE_BLOCKS:
            out[key] = value
        else:
            out[key] = _with_stand_ins(value, below) if isinstance(value, dict) else map_strings(value, _with_names)
    return out


def _with_names(text: str) -> str:
    return _VARIABLE.sub(lambda match: f"${match[1]}" if match[1] not in os.environ else match[0], text)
