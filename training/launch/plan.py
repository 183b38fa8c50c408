"""The plan of a launch, made before anything is done: files, then commands, then the one that starts the run.

Files   runs/EXP_NAME/launch: `job.sh`, for NeMo-RL `driver.sh` besides, and the logs of its jobs (`JOB.log`); for
        Kubernetes `job.yaml`, `sandboxes.yaml` and `entry.sh`.
Law     what is printed is exactly what is written and run; it has no value of a variable that is passed by name.
Local   `bash job.sh` in this process's place: signals and the exit code are the run's own.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.training.launch import built_in, cluster_job, kube_plan, nemo_rl
from paddock.training.launch.overrides import refuse_secrets, words_of
from paddock.training.launch.resolve import DEFAULT, ResolvedLaunch
from paddock.training.launch.settings import VARIABLES, RunLaunchSettings, variables_of
from paddock.training.launch.shell import BashScript, LaunchStep, exec_lines
from paddock.training.launch.slurm import names_passed, sbatch_words
from paddock.whole_file import write_whole

_TITLE = "{name}, as `paddock launch` wrote it: the same launch again goes on with the same run."


class PlanInputs(NamedTuple):
    """What a plan depends on besides the settings of the launch."""

    overrides: Sequence[str] = ()
    """Overrides of the training config."""
    gpus: int = 0
    """GPUs of each node by the config, for the built-in loop."""
    reads: Sequence[str] = ()
    """Variables that the config reads."""
    nodes: int = 1
    """Nodes that the config asks for; 1 where it names a cluster."""
    labels: Mapping[str, int] = {}
    """Labels by which the config chooses nodes, with the GPUs of their roles."""
    agents: Sequence[str] = ()
    """Keys of the blocks of agents with sandboxes."""


class LaunchHost(NamedTuple):
    """The machine on which the command runs."""

    folder: Path
    """The working directory, absolute."""
    package: Path
    """Paddock's checkout, or where it is installed."""
    environ: Mapping[str, str]


class LaunchPlan(NamedTuple):
    """The plan of one launch."""

    resolved: ResolvedLaunch
    files: Mapping[Path, str]
    before: Sequence[LaunchStep]
    start: LaunchStep
    """The command that starts the run; `before` come first."""
    run: Path
    """Folder of the run."""
    log: Path | None
    """The log of a SLURM job; `%j` is its number. None: the run writes to this terminal, or the user submits it."""
    names: Sequence[str] = ()
    """Variables that are passed to a job."""

    def write(self) -> None:
        """Write the files."""
        for path, text in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(errors="surrogateescape"))


def plan(resolved: ResolvedLaunch, inputs: PlanInputs, host: LaunchHost) -> LaunchPlan:
    """The plan; ConfigError for a launch that can't be."""
    settings = resolved.settings
    refuse_secrets([*inputs.overrides, *words_of(settings.extra_hydra_args)])
    # Variables of a launch stand in its script.
    reads = [name for name in inputs.reads if name not in VARIABLES.values()]
    run = host.folder / built_in.RUNS / settings.exp_name
    launch = run / "launch"
    title = _TITLE.format(name=settings.exp_name)
    if settings.executor == "kuberay":
        return _kube(resolved, inputs, host, title, reads)
    names = names_passed(settings, reads, host.environ)
    job = launch / "job.sh"
    parts = (_nemo_rl if settings.trainer == "nemo_rl" else _built_in)(settings, inputs, host, job)
    texts = {path: script.text(title) for path, script in parts.files.items()}
    if settings.executor == "local":
        return LaunchPlan(resolved, texts, parts.before, LaunchStep(["bash", str(job)]), run, None)
    log = launch / "%j.log"
    gpus = parts.gpus if settings.gpus_per_node is None else settings.gpus_per_node
    words = sbatch_words(settings, job, log, nodes=parts.nodes, gpus=gpus, names=names)
    return LaunchPlan(resolved, texts, parts.before, LaunchStep(words), run, log, names)


def _kube(
    resolved: ResolvedLaunch, inputs: PlanInputs, host: LaunchHost, title: str, reads: Sequence[str]
) -> LaunchPlan:
    settings = resolved.settings
    nodes = settings.nodes or inputs.nodes
    _require_possible(settings, inputs, nodes)
    gpus = inputs.gpus if settings.gpus_per_node is None else settings.gpus_per_node
    run = host.folder / built_in.RUNS / settings.exp_name
    names = list(dict.fromkeys([*settings.env, *reads]))
    needed = kube_plan.KubeInputs(
        host.folder, run / "launch", inputs.overrides, nodes, gpus, inputs.labels, inputs.agents, names
    )
    files, submit = kube_plan.kube_plan(settings, needed, title)
    return LaunchPlan(resolved, files, submit[:-1], submit[-1], run, None, names)


class _TrainerParts(NamedTuple):
    """The parts of a plan that differ by trainer."""

    files: dict[Path, BashScript]
    before: list[LaunchStep]
    nodes: int
    gpus: int
    """GPUs of each node, unless a setting gives them."""


def _built_in(settings: RunLaunchSettings, inputs: PlanInputs, host: LaunchHost, job: Path) -> _TrainerParts:
    exports = {"PYTHONUNBUFFERED": "1", **variables_of(settings)}
    nodes = settings.nodes or inputs.nodes
    if settings.executor == "local":
        end = exec_lines(built_in.train_command(settings, inputs.overrides))
        return _TrainerParts({job: BashScript(host.folder, exports, end)}, [], nodes, inputs.gpus)
    _require_possible(settings, inputs, nodes)
    gpus = inputs.gpus if settings.gpus_per_node is None else settings.gpus_per_node
    end = cluster_job.script_lines(
        settings, inputs.overrides, cluster_job.JobShape(host.folder, job.parent, nodes, gpus, inputs.agents)
    )
    return _TrainerParts({job: BashScript(host.folder, exports, end)}, [], nodes, gpus)


def _require_possible(settings: RunLaunchSettings, inputs: PlanInputs, nodes: int) -> None:
    if nodes > 1 and inputs.labels and settings.executor == "slurm":
        raise ConfigError(
            f"cluster.labels: {', '.join(inputs.labels)}: the nodes of a SLURM job have no labels; start Ray on them "
            "yourself and set cluster.address, or leave the labels out",
            kind="labels",
        )
    if settings.sandbox_nodes and not inputs.agents:
        raise ConfigError(
            f"SANDBOX_NODES is {settings.sandbox_nodes}, and no agent of the config has sandboxes", kind="agents"
        )


def _nemo_rl(settings: RunLaunchSettings, inputs: PlanInputs, host: LaunchHost, job: Path) -> _TrainerParts:
    folders = nemo_rl.folders_of(settings, host.package, job.parent)
    driver = nemo_rl.driver(settings, folders, inputs.overrides)
    before = nemo_rl.setup_steps(settings, folders)
    if settings.executor == "local":
        return _TrainerParts({job: driver}, before, 1, 0)
    file = job.with_name("driver.sh")
    files = {file: driver, job: nemo_rl.job(settings, folders, file)}
    return _TrainerParts(files, before, nemo_rl.n_nodes(settings, inputs.overrides), nemo_rl.GPUS_PER_NODE)


def plan_text(launch_plan: LaunchPlan) -> str:
    """The whole plan as text."""
    return "\n".join(_lines(launch_plan))


def _lines(launch_plan: LaunchPlan) -> Iterator[str]:
    settings, origins, notes = launch_plan.resolved
    yield "settings:"
    for field in RunLaunchSettings.model_fields:
        if field in origins or field in ("trainer", "executor", "exp_name"):
            yield f"  {field} = {_quoted(getattr(settings, field))}  ({origins.get(field, DEFAULT)})"
    yield from (f"note: {note}" for note in notes)
    for path, text in launch_plan.files.items():
        yield f"writes {path}:"
        yield from (f"  {line}" for line in text.rstrip("\n").split("\n"))
    if launch_plan.names:
        source = f"Secret {settings.kube_secret}" if settings.executor == "kuberay" else "here"
        yield f"variables that the job has from {source}: {', '.join(launch_plan.names)}"
    yield "to run:" if settings.executor == "kuberay" else "runs:"
    yield from (f"  {step.text()}" for step in (*launch_plan.before, launch_plan.start))
    if settings.trainer == "nemo_rl" and settings.executor == "slurm":
        yield "not verified: no cluster has run such a launch; look at the commands before you rely on them"


def _quoted(value: object) -> str:
    return shlex.quote(",".join(value) if isinstance(value, tuple) else str(value))
