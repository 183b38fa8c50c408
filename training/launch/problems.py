"""Settings that do not go together, or lack what they need: told before anything is written.

Errors  none is raised: each problem is a line, by its variable.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from paddock.training.launch.settings import ENTRY, RAY_JOB, RunLaunchSettings, variable_of

_JOB_NAME = r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?"
"""Of a RayJob: KubeRay makes names of its cluster, services and pods from it."""
_WITHOUT_SPACES = ("container", "sandbox_container", "mounts")
"""Fields that NeMo-RL's `ray.sub` uses without quotes."""


def problems(settings: RunLaunchSettings) -> Iterator[str]:
    """What is wrong with the settings together, each by its variable."""
    if not settings.config_path:
        yield "CONFIG_PATH: name a training config, such as configs/train_demo.yaml"
    if settings.executor == "local":
        yield from _local(settings)
    if settings.executor == "kuberay":
        yield from _kuberay(settings)
    if settings.trainer == "nemo_rl":
        yield from _nemo_rl(settings)


def _local(settings: RunLaunchSettings) -> Iterator[str]:
    for field in ("container", "sandbox_container"):
        if getattr(settings, field):
            yield f"{variable_of(field)}: images are started by SLURM: `executor` is local"
    if (settings.nodes or 1) > 1:
        yield f"{variable_of('nodes')} is {settings.nodes}: `executor: local` is this machine alone"
    if settings.sandbox_nodes:
        yield f"{variable_of('sandbox_nodes')} is {settings.sandbox_nodes}: `executor: local` is this machine alone"


def _kuberay(settings: RunLaunchSettings) -> Iterator[str]:
    if settings.trainer == "nemo_rl":
        yield "`trainer` is nemo_rl: its jobs are SLURM's"
    if settings.exp_name and not re.fullmatch(_JOB_NAME, settings.exp_name):
        yield (
            f"EXP_NAME: {settings.exp_name!r}: the name of a RayJob begins with a small letter and has small letters, "
            "digits and dashes, at most 47"
        )
    needed = ["container", "kube_claim"]
    needed += ["kube_secret", "kube_sandbox_selector"] if settings.sandbox_nodes else []
    needed += ["kube_secret"] if settings.env else []
    for field in dict.fromkeys(needed):
        if not getattr(settings, field):
            yield f"{variable_of(field)} is required by `executor: kuberay`: {_description(field)}"


def _nemo_rl(settings: RunLaunchSettings) -> Iterator[str]:
    if settings.sandbox_nodes:
        yield f"{variable_of('sandbox_nodes')}: the job of NeMo-RL's trainer is its own, and has no such nodes"
    needed = ["nemo_rl_dir", "model_path", "train_path", "val_path"]
    if settings.executor == "slurm":
        needed += ["container", "persistent_cache", "partition", "account"]
    for field in needed:
        if not getattr(settings, field):
            yield f"{variable_of(field)} is required by NeMo-RL's trainer: {_description(field)}"
    if settings.executor == "slurm":
        for field in _WITHOUT_SPACES:
            if any(letter.isspace() for letter in "".join(getattr(settings, field))):
                yield f"{variable_of(field)}: NeMo-RL's ray.sub takes no spaces in it"
    if settings.nemo_rl_dir:
        folder = Path(settings.nemo_rl_dir).expanduser()
        for name in (ENTRY, *([RAY_JOB] if settings.executor == "slurm" else [])):
            if not (folder / name).is_file():
                yield f"NEMO_RL_DIR: {settings.nemo_rl_dir} is no checkout of NeMo-RL: it has no {name}"


def _description(field: str) -> str:
    text = RunLaunchSettings.model_fields[field].description or ""
    return text.replace("\n", " ").partition(";")[0].rstrip(".")
