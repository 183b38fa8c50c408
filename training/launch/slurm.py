"""The commands of SLURM: the words of `sbatch` and `srun`, and the submission of a job.

Law     variables of this environment reach a job by their names alone (`--export=NAME,...`). Jobs of one name queue
        behind each other (`singleton`): a run has one at a time, and a chain of them goes on with it.
Signals `scancel`, preemption and the time limit send SIGTERM to the step, and SIGKILL after the site's KillWait; two
        minutes before the time limit the step has a SIGTERM already. So have all steps of a job.
Errors  ConfigError `slurm`: there is no sbatch; InfraError `sbatch`: it refused, in its own words.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddock.errors import ConfigError, InfraError
from paddock.training.launch.settings import RunLaunchSettings

WARNING_S = 120
"""Between the first SIGTERM and the time limit."""
LEAST_MINUTES = 10
"""A job with less time has no such warning: it would come at once."""
SUBMIT_TIMEOUT_S = 120.0
PASSED_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"),
    *("PADDOCK_HOME", "HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN", "WANDB_API_KEY"),
)
"""Variables that are passed to a job where they are set."""


def sbatch_words(
    settings: RunLaunchSettings, script: Path, log: Path, *, nodes: int, gpus: int, names: Sequence[str]
) -> list[str]:
    """The words of `sbatch`. `%j` in `log` is the job's number. NeMo-RL's job sets the tasks of its steps itself, and
    ends them."""
    ours = settings.trainer == "paddock"
    warned = ours and minutes(settings.time_limit) >= LEAST_MINUTES
    optional = {
        "--partition": settings.partition,
        "--account": settings.account,
        "--gres": f"gpu:{gpus}" if gpus else "",
        "--cpus-per-task": str(settings.cpus_per_task or ""),
        "--mem": settings.memory,
        "--ntasks-per-node": "1" if ours else "",
        "--signal": f"TERM@{WARNING_S}" if warned else "",
    }
    return [
        "sbatch",
        "--parsable",
        f"--job-name={settings.exp_name}",
        f"--nodes={nodes}",
        f"--time={settings.time_limit}",
        "--dependency=singleton",
        "--requeue",
        "--open-mode=append",
        f"--output={_pattern(log.parent)}/{log.name}",
        f"--export={','.join(names)}",
        *(f"{option}={value}" for option, value in optional.items() if value),
        *(["--exclusive"] if settings.exclusive or not ours else []),
        *(_sandbox_component(settings) if settings.sandbox_nodes else []),
        str(script),
    ]


def _sandbox_component(settings: RunLaunchSettings) -> list[str]:
    """The second component of a heterogeneous job: whole nodes, for a node of sandboxes gives what its machine has. By
    the job's own name it would wait for the first component to end."""
    optional = {"--partition": settings.sandbox_partition or settings.partition, "--account": settings.account}
    return [
        ":",
        f"--job-name={settings.exp_name}-sandboxes",
        f"--nodes={settings.sandbox_nodes}",
        f"--time={settings.time_limit}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--mem=0",
        *(f"{option}={value}" for option, value in optional.items() if value),
    ]


def _pattern(path: Path) -> str:
    """The path with `%` escaped for SLURM."""
    return str(path).replace("%", "%%")


def minutes(text: str) -> float:
    """The minutes of a time limit: M, M:S, H:M:S, or days and a dash before H, H:M, H:M:S."""
    days, dash, rest = text.rpartition("-")
    parts = [float(part) for part in rest.split(":")]
    if dash or len(parts) == 3:
        hours, more, seconds = [*parts, 0.0, 0.0][:3]
        return int(days or 0) * 1440 + hours * 60 + more + seconds / 60
    return parts[0] + (parts[1] / 60 if len(parts) > 1 else 0)


def srun_words(settings: RunLaunchSettings, command: Sequence[str], folder: Path, *, nodes: int = 1) -> list[str]:
    """The words of `srun` for one task on each of some of the job's nodes, with all that the job has there."""
    image = [
        f"--container-image={settings.container}",
        f"--container-mounts={','.join([*settings.mounts, f'{folder}:{folder}'])}",
        f"--container-workdir={folder}",
        "--no-container-mount-home",
    ]
    cpus = [f"--cpus-per-task={settings.cpus_per_task}"] if settings.cpus_per_task else []
    head = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--export=ALL", "--cpu-bind=none", *cpus]
    return [*head, *(image if settings.container else []), *command]


def names_passed(settings: RunLaunchSettings, read: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The names of the variables that are passed to a job. `read`: those that the config reads. ConfigError for one of
    the profile's `env` that is not set."""
    if missing := [name for name in settings.env if name not in environ]:
        raise ConfigError(
            f"`env` of the profile: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set here",
            kind="env",
        )
    return [name for name in dict.fromkeys([*PASSED_VARIABLES, *settings.env, *read]) if name in environ]


def require_sbatch() -> None:
    """ConfigError where there is no sbatch; to be called before anything is written."""
    if shutil.which("sbatch") is None:
        raise ConfigError("there is no sbatch here: SLURM's jobs are submitted from its login nodes", kind="slurm")


def submit(words: Sequence[str]) -> str:
    """Submit a job; its number. InfraError where sbatch refuses or does not answer."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SUBMIT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InfraError(f"sbatch did not answer in {SUBMIT_TIMEOUT_S:.0f} s", kind="sbatch") from None
    if done.returncode:
        raise InfraError(f"sbatch refused: {done.stderr.strip()}", kind="sbatch", retryable=False)
    return done.stdout.strip().partition(";")[0]
